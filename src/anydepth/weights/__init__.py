"""Weight functions: how a tensor of a unit depends on depth."""
