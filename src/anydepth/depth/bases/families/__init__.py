"""Every module here is one family of bases and registers itself."""
