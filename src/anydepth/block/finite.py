"""Whether what went into a block was finite: refused at once on CPUs, kept as a flag on the device elsewhere.

Reading a number back makes the host wait for the device. So elsewhere the flag stays there until somebody asks.
"""

import torch
from torch import Tensor

from anydepth.errors import NumericalError
from anydepth.solve.tensors import State, check_finite, is_transformed


class FiniteFlag:
    """True as long as all inputs were finite, on every device that there were inputs on; never saved or copied."""

    def __init__(self) -> None:
        self._flags: dict[torch.device, Tensor] = {}

    def note(self, parts: State) -> None:
        """Refuse parts that are not finite, now on a CPU, later elsewhere."""
        if torch.compiler.is_compiling() or is_transformed():
            return
        check_finite(tuple(part for part in parts if part.device.type == "cpu"), "x")
        for part in parts:
            if part.device.type not in ("cpu", "meta"):
                is_finite, before = part.detach().isfinite().all(), self._flags.get(part.device)
                self._flags[part.device] = is_finite if before is None else before & is_finite

    def read(self) -> bool:
        """Whether all inputs since the last question were finite; waits for their devices."""
        flags, self._flags = self._flags, {}
        return all(bool(flag) for flag in flags.values())

    def __deepcopy__(self, memo: dict) -> "FiniteFlag":
        return FiniteFlag()

    def __reduce__(self) -> tuple:
        return FiniteFlag, ()


def refuse_not_finite(label: str, flag: FiniteFlag) -> None:
    if not flag.read():
        raise NumericalError(f"the input of {label} was not finite; mend the data or lower the learning rate")
