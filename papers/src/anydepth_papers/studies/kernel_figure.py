"""The figure of the study of evolving kernels: accuracies of the variants, and kernels over depth."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from matplotlib.figure import Figure, SubFigure

Seeds = Sequence[Mapping[str, Any]]


def kernel_figure(found: Mapping[str, Mapping[str, Seeds]], titles: Mapping[str, str], shown: str) -> "Figure":
    """One line per network: test accuracy by variant on the left, kernels of one variant on the right."""
    import matplotlib.pyplot as plt

    figure = plt.figure(figsize=(11, 4.6 * len(found)), constrained_layout=True)
    lines = figure.subfigures(len(found), 2, squeeze=False, width_ratios=[1, 1.2])
    for (left, right), (layout, variants) in zip(lines, found.items(), strict=True):
        _accuracies(left, titles[layout], variants)
        _kernels(right, variants[shown][0])
    return figure


def _accuracies(part: "SubFigure", title: str, variants: Mapping[str, Seeds]) -> None:
    place = part.subplots()
    for x, (variant, seeds) in enumerate(variants.items()):
        colour = "#0b6e99" if variant.startswith("config") else "#c2571a"
        place.plot([x] * len(seeds), [one["accuracy"] for one in seeds], "o", color=colour, alpha=0.8)
    place.set_xticks(range(len(variants)), list(variants), rotation=20)
    place.set(ylabel="test accuracy (%)", title=title)
    place.grid(alpha=0.25, axis="y")


def _kernels(part: "SubFigure", found: Mapping[str, Any]) -> None:
    """Kernels in rows, times in columns."""
    times, kernels = found["times"], np.array(found["kernels"])
    limit = max(abs(kernels).max(), 1e-9)
    places = part.subplots(kernels.shape[1], len(times), squeeze=False)
    for column, time, many in zip(places.T, times, kernels, strict=True):
        for place, kernel in zip(column, many, strict=True):
            place.imshow(kernel, cmap="RdBu_r", vmin=-limit, vmax=limit)
            place.set_axis_off()
        column[0].set_title(f"t = {time:g}", fontsize=9)
    part.suptitle("Kernels of the first convolution, configuration one", fontsize=11)
