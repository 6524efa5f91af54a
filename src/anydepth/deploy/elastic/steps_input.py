"""The input of an elastic file that says how many steps its blocks take."""

from collections.abc import Sequence

import torch
from torch import Tensor

from anydepth.deploy.export.ports import Call, Port
from anydepth.errors import ConfigError

LEAST, MOST = 1, 64
STEPS_PORT = Port(name="steps", dtype="int64", shape=("blocks",))


def check_steps(steps: int) -> None:
    if not isinstance(steps, int) or isinstance(steps, bool) or not LEAST <= steps <= MOST:
        raise ConfigError(f"an elastic file takes {LEAST} to {MOST} steps, got {steps!r}")


def with_steps(call: Call, steps: int) -> Call:
    """An elastic file as a function of the model's inputs alone."""
    check_steps(steps)
    given = torch.tensor([steps], dtype=torch.int64)

    def run(inputs: Sequence[Tensor]) -> Tensor:
        return call((given, *inputs))

    return run
