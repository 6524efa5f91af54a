"""A drop-in for torchdiffeq: its signatures, method names and options, run by this library's solvers.

`from anydepth.torchdiffeq import odeint, odeint_adjoint` in the place of `from torchdiffeq import ...`.
"""

from anydepth.torchdiffeq.adjoint_odeint import odeint_adjoint
from anydepth.torchdiffeq.interface import odeint, odeint_dense, odeint_event

__all__ = ["odeint", "odeint_adjoint", "odeint_dense", "odeint_event"]
