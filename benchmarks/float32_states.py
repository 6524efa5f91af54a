"""How near float32 states of `anydepth.torchdiffeq` and of torchdiffeq are to those in float64.

Run: .venv/bin/python benchmarks/float32_states.py
Fixed and adaptive steps on a rotation, a decay, logistic growth and van der Pol's equation; the reference is
torchdiffeq's in float64 at tolerance 1e-12. The largest distance over all times, relative to the largest entry.
"""

import json
import math
from collections.abc import Callable

import torch
import torchdiffeq
from torch import Tensor

import anydepth.torchdiffeq as ours

Field = Callable[[Tensor, Tensor], Tensor]
TIMES = torch.arange(0, 81, dtype=torch.float64) / 4  # exact in float32, and so is the step


def rotation(_: Tensor, y: Tensor) -> Tensor:
    return torch.stack([y[1], -y[0]])


def decay(_: Tensor, y: Tensor) -> Tensor:
    return -0.2 * y


def logistic(_: Tensor, y: Tensor) -> Tensor:
    return 0.5 * y * (1 - y)


def van_der_pol(_: Tensor, y: Tensor) -> Tensor:
    return torch.stack([y[1], (1 - y[0] ** 2) * y[1] - y[0]])


FIELDS: dict[str, tuple[Field, list[float]]] = {
    "rotation": (rotation, [1.0, 0.0]),
    "decay": (decay, [1.0, 0.5]),
    "logistic": (logistic, [0.1, 0.2]),
    "van der Pol": (van_der_pol, [1.0, 0.0]),
}
METHODS = {
    "rk4 at step 1/128": {"method": "rk4", "options": {"step_size": 1 / 128}},
    "dopri5 at 1e-7": {"method": "dopri5", "rtol": 1e-7, "atol": 1e-9},
}


class Counted:
    """A field that counts its evaluations."""

    def __init__(self, field: Field):
        self.field, self.calls = field, 0

    def __call__(self, t: Tensor, y: Tensor) -> Tensor:
        self.calls += 1
        return self.field(t, y)


def main() -> None:
    ratios = []
    for name, (field, start) in FIELDS.items():
        first = torch.tensor(start, dtype=torch.float64)
        exact = torchdiffeq.odeint(field, first, TIMES, rtol=1e-12, atol=1e-14)
        for method, options in METHODS.items():
            row: dict[str, object] = {"problem": name, "method": method}
            errors = {}
            for side, library in (("anydepth", ours), ("torchdiffeq", torchdiffeq)):
                counted = Counted(field)
                found = library.odeint(counted, first.float(), TIMES.float(), **options)
                errors[side] = float((found.double() - exact).abs().max() / exact.abs().max())
                row |= {side: f"{errors[side]:.1e}", f"{side} evaluations": counted.calls}
            ratios.append(errors["torchdiffeq"] / errors["anydepth"])
            print(json.dumps(row | {"ratio": round(ratios[-1], 2)}), flush=True)  # noqa: T201
    middle = math.exp(sum(map(math.log, ratios)) / len(ratios))
    print(json.dumps({"geometric mean of torchdiffeq / anydepth": round(middle, 2)}))  # noqa: T201


if __name__ == "__main__":
    main()
