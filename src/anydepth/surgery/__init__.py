"""Operations on whole models: grow, compress, change the solver, save and load."""
