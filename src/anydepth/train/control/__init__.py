"""Step control: how fine the solver is while a model trains."""
