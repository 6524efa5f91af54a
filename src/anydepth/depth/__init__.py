"""The numerics of depth: schemes, grids, bases and transfer matrices. Knows nothing of torch."""
