"""The demonstration in one picture."""

from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

from anydepth import artifact
from anydepth.json_values import JsonObject

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLOURS = {"continuous": "#0b6e99", "resnet": "#c2571a"}
MARKS = {"euler": ("o", "-"), "midpoint": ("s", "--"), "rk4": ("^", "-."), "rk4_38": ("D", ":")}


def draw(results: JsonObject, path: Path) -> None:
    """Accuracy over solvers on the left, over parameters on the right, for both nets."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.2), sharey=True, constrained_layout=True)
    for name, model in results["models"].items():
        _solvers(left, name, model)
        _compression(right, name, model)
    left.set(xscale="log", xlabel="steps at test time", ylabel="test accuracy (%)", ylim=(0, 103))
    left.set_title("The same weights, other solvers and depths")
    steps = [int(n) for n in next(iter(results["models"].values()))["solvers"]["euler"]]
    left.set_xticks(steps, [str(n) for n in steps])
    left.minorticks_off()
    right.set(xlabel="share of the block's parameters kept (%)")
    right.set_title("Compressed by projection, no retraining")
    for axes in (left, right):
        axes.grid(alpha=0.25)
        axes.spines[["top", "right"]].set_visible(False)
        axes.legend(fontsize=8, loc="lower right", framealpha=0.9)
    image = BytesIO()
    figure.savefig(image, format="png", dpi=130)
    plt.close(figure)
    artifact.write_bytes(path, image.getvalue())


def _solvers(axes: "Axes", name: str, model: JsonObject) -> None:
    for scheme, by_steps in model["solvers"].items():
        marker, line = MARKS[scheme]
        steps, accuracies = [int(n) for n in by_steps], list(by_steps.values())
        label = f"{_short(model)}, run with {scheme}"
        style = {
            "marker": marker,
            "linestyle": line,
            "color": COLOURS[name],
            "markersize": 4.5,
            "linewidth": 1.4,
        }
        axes.plot(steps, accuracies, label=label, **style)
    axes.plot(
        [model["steps"]],
        [model["accuracy"]],
        "o",
        markersize=13,
        fillstyle="none",
        color=COLOURS[name],
        markeredgewidth=1.6,
    )


def _compression(axes: "Axes", name: str, model: JsonObject) -> None:
    kept = [100 * entry["block_parameters"] / model["block_parameters"] for entry in model["compressed"].values()]
    for key, style, label in (("accuracy", "o-", model["title"]), ("recalibrated", "o:", "the same, recalibrated")):
        accuracies = [entry[key] for entry in model["compressed"].values()]
        axes.plot(kept, accuracies, style, color=COLOURS[name], linewidth=1.8, markersize=4.5, label=label)


def _short(model: JsonObject) -> str:
    return model["title"].split(":")[0]
