"""`make soak`: the fault matrix at full length, in numbered tries that may be stopped and resumed."""
