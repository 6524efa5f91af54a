"""The nets of the campaign: each declared before it is trained, in the order in which they are trained.

All share one recipe on CIFAR-10: 45,000 training and 5,000 validation images, 27 epochs, batch 128, Nesterov momentum
0.9, learning rate 0.1 with a warm-up of two epochs and a cosine to zero, weight decay 5e-4, label smoothing 0.1, shifts
by up to 4 pixels and mirroring, one thread. Channels are 16-32-64 (16-32 in the nets for basis
and schedule), without a stitch before the first block. Nets that grow have N = 1, 2, 4, 8
steps for 15, 6, 3 and 3 epochs. Seeds are 0, 1 and 2.

`SCALE` was chosen by a trial on 10,000 images, 9 epochs and seed 100: hats trained with the midpoint rule reached
64.92 % of the validation images with scale 1, 64.54 % with scale 4. Everything else was fixed without a trial.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from anydepth.runs.config import (
    SGD,
    Cosine,
    DataSettings,
    ModelSettings,
    RefineSettings,
    RunConfig,
    TrainingSettings,
)
from anydepth_papers.nets.stateful_nets import LATER

EPOCHS, PER_EPOCH, BATCH = 27, 351, 128
"""An epoch is 45,000 // 128 = 351 steps."""
GROWS_AT = (15, 21, 24)
STEPS = 8
"""Steps of nets that grow, after the last refinement; steps of nets of fixed depth."""
SCALE = 1.0
"""Of the blocks of hats."""
SCALE_OF_CONSTANTS = 4.0
"""Of ContinuousNet's blocks, as the paper has it for 8 steps; a stitch is scaled as one of the last steps is."""
SURVIVAL = 0.5
"""Of the last residual unit, with stochastic depth (Huang et al. 2016)."""
SEEDS = (0, 1, 2)


@dataclass(frozen=True)
class Net:
    """One training of the campaign."""

    title: str
    about: str
    model: ModelSettings
    seed: int
    grows: bool

    @property
    def name(self) -> str:
        """Of its folder."""
        return f"{self.title}-{self.seed}"

    def config(self) -> RunConfig:
        return RunConfig(
            seed=self.seed,
            threads=1,
            device="cpu",
            checkpoint_minutes=4.0,
            log_every=PER_EPOCH,
            data=DataSettings(name="cifar10", validation=5000, crop=4, flip=True),
            model=self.model,
            optimizer=SGD(lr=0.1, nesterov=True, weight_decay=5e-4),
            schedule=Cosine(warmup=2 * PER_EPOCH),
            training=TrainingSettings(epochs=EPOCHS, batch=BATCH, label_smoothing=0.1),
            refine=RefineSettings(at=GROWS_AT if self.grows else ()),
        )


def _continuous(**options: Any) -> ModelSettings:
    return ModelSettings(name="image", options={"channels": [16, 32, 64], "first_stitch": False, **options})


def _hats(scheme: str) -> ModelSettings:
    return _continuous(basis="linear", size=1, steps=1, scheme=scheme, scale=SCALE)


def _constants(scheme: str, size: int, **options: Any) -> ModelSettings:
    scales = {"scale": SCALE_OF_CONSTANTS, "stitch_scale": SCALE_OF_CONSTANTS / STEPS, "stitch_skip_init": True}
    shape = {"unit": "skip_init_conv", "basis": "constant", "size": size, "steps": size, "scheme": scheme}
    return _continuous(**shape, **scales, **options)


def _resnet(layers: int, survival: float = 1.0) -> ModelSettings:
    return ModelSettings(name="resnet", options={"channels": [16, 32, 64], "layers": layers, "survival": survival})


Row = tuple[str, str, Callable[[], ModelSettings], bool]

ONE_NET: tuple[Row, ...] = (
    ("hats-midpoint", "hats grown 1, 2, 3, 5, trained with the midpoint rule", lambda: _hats("midpoint"), True),
    ("resnet-2", "plain ResNet, 2 units a stage", lambda: _resnet(2), False),
    ("resnet-1", "plain ResNet, 1 unit a stage", lambda: _resnet(1), False),
    ("resnet-4", "plain ResNet, 4 units a stage", lambda: _resnet(4), False),
    ("resnet-8", "plain ResNet, 8 units a stage", lambda: _resnet(8), False),
    ("resnet-8-stochastic", "the same with stochastic depth", lambda: _resnet(8, SURVIVAL), False),
)
"""One net for all budgets against a specialist for each, and against a ResNet trained to lose layers."""
PAPERS: tuple[Row, ...] = (
    ("constants-rk4", "ContinuousNet with RK4, grown 1, 2, 4, 8", lambda: _constants("rk4", 1), True),
    ("constants-euler", "ContinuousNet with Euler, 8 steps from the start", lambda: _constants("euler", STEPS), False),
    ("hats-rk4", "Stateful ODE-Net (c1): hats grown 1, 2, 3, 5 with RK4", lambda: _hats("rk4"), True),
    (
        "constants-euler-tied",
        "ContinuousNet with Euler, all steps alike at the start: the control for smooth weights",
        lambda: _constants("euler", STEPS, init="shared"),
        False,
    ),
)
"""The nets of the studies on ContinuousNet and Stateful ODE-Nets."""


def nets() -> tuple[Net, ...]:
    """All nets, seed by seed: the first experiment, then the papers' nets, then those for compression."""
    return tuple(
        Net(title, about, make(), seed, grows)
        for group in (ONE_NET, PAPERS, LATER)
        for seed in SEEDS
        for title, about, make, grows in group
    )
