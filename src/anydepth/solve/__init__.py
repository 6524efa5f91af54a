"""Solvers for dy/dt = f: plans, fixed and adaptive steps, gradient modes, odeint. Knows no module and no block."""
