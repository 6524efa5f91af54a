"""The figure of the tagging study: compression, shortening, a weight and attention over depth."""

from typing import TYPE_CHECKING, Any, cast

import numpy as np

from anydepth_papers.studies.tagged import BASES, halvings, named, per_cent

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def draw(found: list[dict[str, Any]]) -> "Figure":
    import matplotlib.pyplot as plt

    size, steps = found[0]["sizes"]
    figure = plt.figure(figsize=(13, 8), constrained_layout=True)
    top, bottom = cast("Any", figure.subfigures(2, 1, height_ratios=(1.2, 1)))
    compressed, shortened, weight = top.subplots(1, 3)
    colours = {"constant": ("o-", "#c2571a"), "linear": ("s--", "#0b6e99"), "discontinuous": ("D:", "#2a7f4f")}
    for basis in BASES:
        names = {k: named(basis, k, steps) for k in halvings(size)}
        _curve(compressed, found, names, *colours[basis], basis)
    for k, shade in zip(halvings(size), np.linspace(0.95, 0.35, len(halvings(size))), strict=True):
        names = {n: named("constant", k, n) for n in halvings(steps) if n <= k}
        _curve(shortened, found, names, "o-", plt.get_cmap("Oranges")(shade), f"K = {k}")
    _axes(compressed, found, "Projected onto K functions, steps as trained", "K")
    _axes(shortened, found, "K constants, run with N <= K steps", "N")
    _draw_weight(weight, found[0]["weight"], [colour for _, colour in colours.values()])
    _draw_attention(bottom, found[0]["attention"])
    return figure


def _curve(place: Any, found: list[dict[str, Any]], names: dict[int, str], style: str, colour: Any, label: str) -> None:
    there = {x: name for x, name in names.items() if name in found[0]["forms"]}
    values = [np.mean([one["forms"][name]["accuracy"] for one in found]) for name in there.values()]
    place.plot(list(there), values, style, color=colour, label=label, markersize=4)


def _axes(place: Any, found: list[dict[str, Any]], title: str, label: str) -> None:
    counting = per_cent(found[0], found[0]["counting"])
    place.axhline(counting, color="grey", linewidth=1, linestyle=":", label="counting words")
    place.set(title=title, xlabel=label, ylabel="test accuracy (%)")
    place.set_xscale("log", base=2)
    place.xaxis.set_major_formatter("{x:g}")
    place.grid(alpha=0.25)
    place.legend(fontsize=8)


def _draw_weight(place: Any, shown: dict[str, Any], colours: list[str]) -> None:
    for (name, line), colour in zip(shown["lines"].items(), colours, strict=True):
        place.plot(shown["depths"], line, color=colour, label=name, linewidth=1.2)
    place.set(title="One entry of the query matrix", xlabel="depth t")
    place.grid(alpha=0.25)
    place.legend(fontsize=8)


def _draw_attention(figure: Any, seen: dict[str, Any]) -> None:
    largest = max(max(row) for values in seen["maps"] for row in values)
    for place, depth, values in zip(figure.subplots(1, 4), seen["depths"], seen["maps"], strict=True):
        place.imshow(values, cmap="Blues", vmin=0, vmax=largest)
        place.set_title(f"attention at t = {depth:g}")
        place.set_xticks(range(len(seen["words"])), seen["words"], rotation=90, fontsize=7)
        place.set_yticks(range(len(seen["words"])), seen["words"], fontsize=7)
