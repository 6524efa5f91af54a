"""Small fields as machine code: a traced unit as tables, kernels that run them, and the threads they run on."""
