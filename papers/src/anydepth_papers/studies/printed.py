"""What ContinuousNet and Stateful ODE-Nets print about nets of full size: rows of data, each with its rule."""

from dataclasses import dataclass, replace
from functools import cached_property

from anydepth.recipes import RECIPES
from anydepth.runs.config import RunConfig
from anydepth.runs.override import override
from anydepth_papers.judge.experiment import Claim

STATED = 0.5
"""Margin in points where the paper prints no spread."""
KEPT = 2.0
"""Points that a net may lose at half its steps; C Table 1b prints a loss of 1.8."""


@dataclass(frozen=True)
class Form:
    """The net of a recipe, and the form that it is brought into after training; None: as it was trained."""

    recipe: str
    changes: tuple[str, ...] = ()
    basis: str | None = None
    size: int | None = None
    scheme: str | None = None
    steps: int | None = None

    @cached_property
    def config(self) -> RunConfig:
        return override(RECIPES[self.recipe](), self.changes)

    @property
    def options(self) -> dict[str, str | int]:
        """What is changed after training."""
        named = {"basis": self.basis, "size": self.size, "scheme": self.scheme, "steps": self.steps}
        return {name: value for name, value in named.items() if value is not None}

    @property
    def trained(self) -> "Form":
        """The same net as it was trained."""
        return Form(self.recipe, self.changes)

    @property
    def command(self) -> str:
        """Trains it, and brings it into its form."""
        train = " ".join(["anydepth train", self.recipe, *(f"--set {change}" for change in self.changes)])
        options = " ".join(f"--{name} {value}" for name, value in self.options.items())
        return f"`{train}`" + (f", then `anydepth compress RUN --out SMALL {options}`" if options else "")


@dataclass(frozen=True)
class Near:
    """The accuracy is the printed one, within the printed spread."""

    value: float
    low: float | None = None
    high: float | None = None
    stated: float = STATED
    """The margin where no spread is printed."""

    @property
    def margin(self) -> float:
        if self.low is None or self.high is None:
            return self.stated
        return round(max(self.value - self.low, self.high - self.value), 2)


@dataclass(frozen=True)
class Below:
    """The accuracy is below that of another net in the same form."""

    recipe: str


@dataclass(frozen=True)
class Above:
    """The accuracy is above that of another net in the same form."""

    recipe: str


@dataclass(frozen=True)
class Keeps:
    """The form costs at most so many points."""

    margin: float


@dataclass(frozen=True)
class LosesMore:
    """The form costs more points than another net loses in the same form."""

    recipe: str


@dataclass(frozen=True)
class PrintedRow:
    """One sentence of a paper about a net of full size."""

    what: str
    source: str
    form: Form
    rule: Near | Below | Above | Keeps | LosesMore

    @property
    def other(self) -> Form | None:
        """The net that it is compared with, in the same form."""
        recipe = getattr(self.rule, "recipe", None)
        return None if recipe is None else replace(self.form, recipe=recipe)

    @property
    def claim(self) -> Claim:
        if not isinstance(self.rule, Near):
            return Claim(self.what, self.source, "a picture")
        spread = "" if self.rule.low is None else f" ({self.rule.low:g} to {self.rule.high:g})"
        sentence = f"{self.what}: this accuracy, within {self.rule.margin:g} points"
        return Claim(sentence, self.source, f"{self.rule.value:g} %{spread}")


_C10, _C10E, _C10F = "continuousnet-cifar10", "continuousnet-cifar10-euler", "continuousnet-cifar10-fixed"
_C100, _C100E = "continuousnet-cifar100", "continuousnet-cifar100-euler"
_NO_NORM = ("model.options.normalise=false",)

CONTINUOUSNET = (
    PrintedRow("ContinuousNet (RK4), CIFAR-10", "C Table 1a", Form(_C10), Near(93.57, 93.40, 93.70)),
    PrintedRow("ContinuousNet (Euler), CIFAR-10", "C Table 1a", Form(_C10E), Near(93.84, 93.55, 94.04)),
    PrintedRow("ResNet-200, CIFAR-10", "C Table 1a", Form("resnet-cifar10"), Near(93.84, 93.56, 94.03)),
    PrintedRow("RK4 without refinement, CIFAR-10", "C footnote 6", Form(_C10F), Near(93.57, 93.40, 93.70)),
    PrintedRow("RK4 net run with Euler", "C Table 1a", Form(_C10, scheme="euler"), Near(93.55)),
    PrintedRow("RK4 net run with RK4-3/8, N = 11", "C Table 1a", Form(_C10, scheme="rk4_38", steps=11), Near(93.44)),
    PrintedRow("RK4 net run with RK4-3/8, N = 6", "C Table 1a", Form(_C10, scheme="rk4_38", steps=6), Near(92.28)),
    PrintedRow("ContinuousNet (RK4), CIFAR-100", "C Table 1b", Form(_C100), Near(77.99, 77.68, 78.12)),
    PrintedRow("ContinuousNet (Euler), CIFAR-100", "C Table 1b", Form(_C100E), Near(78.80, 78.20, 79.65)),
    PrintedRow("Wide-ResNet, CIFAR-100", "C Table 1b", Form("wide-resnet-cifar100"), Near(79.04, 78.67, 79.35)),
    PrintedRow("CIFAR-100 RK4 net, RK4-3/8, N = 4", "C Table 1b", Form(_C100, scheme="rk4_38", steps=4), Near(76.19)),
    PrintedRow("Tiny-ImageNet, midpoint", "C B.1", Form("continuousnet-tiny-imagenet"), Near(40, stated=2.0)),
    PrintedRow("Tiny-ImageNet, Euler", "C Fig 10", Form("continuousnet-tiny-imagenet-euler"), Near(40, stated=2.0)),
    PrintedRow(
        "Tiny-ImageNet: at half its steps the Euler net loses more than the midpoint net",
        "C Fig 10",
        Form("continuousnet-tiny-imagenet-euler", steps=4),
        LosesMore("continuousnet-tiny-imagenet"),
    ),
)


def _figure_11(panel: str, title: str, name: str, steps: int) -> tuple[PrintedRow, ...]:
    """A family without skip-init: RK4, refined, and Euler, fixed."""
    rk4, euler, source = f"{name}-no-skip-init", f"{name}-euler-no-skip-init", f"C Fig 11{panel}"
    half = steps // 2
    sentence = f"{title} without skip-init"
    return (
        PrintedRow(
            f"{sentence}: RK4 with half the steps loses at most 2 points", source, Form(rk4, steps=half), Keeps(KEPT)
        ),
        PrintedRow(f"{sentence}: Euler loses more there than RK4", source, Form(euler, steps=half), LosesMore(rk4)),
    )


def _without(title: str, name: str, steps: int) -> tuple[PrintedRow, ...]:
    """A family with and without skip-init."""
    rk4, euler, doubled = f"{name}-no-skip-init", f"{name}-euler-no-skip-init", 2 * steps
    alleviated = f"{title}: with twice the steps the Euler net is better off without skip-init"
    return (
        PrintedRow(f"{title}, RK4: less accurate without skip-init", "C B.2", Form(rk4), Below(name)),
        PrintedRow(f"{title}, Euler: less accurate without skip-init", "C B.2", Form(euler), Below(f"{name}-euler")),
        PrintedRow(alleviated, "C B.2", Form(euler, steps=doubled), Above(f"{name}-euler")),
    )


NO_SKIP_INIT = (
    *_figure_11("a", "CIFAR-10", _C10, 32),
    *_figure_11("b", "CIFAR-100", _C100, 8),
    *_figure_11("c", "CIFAR-100, 32-64-128 channels, N = 16,", f"{_C100}-deep", 16),
    *_without("CIFAR-10", _C10, 32),
    *_without("CIFAR-100", _C100, 8),
)

_MNIST, _SHALLOW = "stateful-mnist", "stateful-cifar10-shallow"
_C1, _C2 = "stateful-cifar10-deep", "stateful-cifar10-deep-fixed"
_WIDE1, _WIDE2 = "stateful-cifar100", "stateful-cifar100-fixed"
STATEFUL = (
    PrintedRow("constants, MNIST", "S Table 2", Form(_MNIST), Near(99.4, 99.3, 99.6)),
    PrintedRow(
        "compressed to 4 constants and steps", "S Table 2", Form(_MNIST, size=4, steps=4), Near(99.2, 99.1, 99.4)
    ),
    PrintedRow(
        "compressed to 2 constants and steps", "S Table 2", Form(_MNIST, size=2, steps=2), Near(96.9, 95.7, 97.8)
    ),
    PrintedRow("without normalisation, MNIST", "S Table 2", Form("stateful-mnist-no-norm"), Near(99.1, 98.9, 99.3)),
    PrintedRow("constants, shallow, CIFAR-10", "S Table 3", Form(_SHALLOW), Near(90.4, 90.1, 90.7)),
    PrintedRow("shallow, compressed to 4", "S Table 3", Form(_SHALLOW, size=4, steps=4), Near(89.9, 89.6, 90.3)),
    PrintedRow("shallow without normalisation", "S Table 3", Form(_SHALLOW, _NO_NORM), Near(88.4, 88.1, 88.9)),
    PrintedRow("hats, refined, CIFAR-10 (c1)", "S Table 4", Form(_C1), Near(92.4, 92.1, 93.0)),
    PrintedRow("c1 compressed to 9 hats, 8 steps", "S Table 4", Form(_C1, size=9, steps=8), Near(91.8, 91.1, 92.2)),
    PrintedRow("constants, not refined, CIFAR-10 (c2)", "S Table 4", Form(_C2), Near(94.1, 93.8, 94.4)),
    PrintedRow(
        "c2 compressed to 8 constants, 8 steps", "S Table 4", Form(_C2, size=8, steps=8), Near(60.5, 52.7, 69.9)
    ),
    PrintedRow("c1 without normalisation", "S Table 4", Form(_C1, _NO_NORM), Near(10.0)),
    PrintedRow("hats, refined, CIFAR-100 (c1)", "S Table 5, swapped", Form(_WIDE1), Near(76.2, 75.5, 76.9)),
    PrintedRow("c1 compressed to 5 hats, 4 steps", "S Table 5", Form(_WIDE1, size=5, steps=4), Near(75.6, 75.2, 75.9)),
    PrintedRow("constants, not refined, CIFAR-100 (c2)", "S Table 5", Form(_WIDE2), Near(79.1, 78.5, 79.9)),
    PrintedRow(
        "c2 compressed to 5 constants, 5 steps", "S Table 5", Form(_WIDE2, size=5, steps=5), Near(48.9, 39.5, 52.7)
    ),
)
"""Table 5 prints an average of c1 (76.9) above its best (76.2): they are swapped, as the text says too."""
ROWS = CONTINUOUSNET + NO_SKIP_INIT + STATEFUL
