"""The learnt field beside the true one: where are the sinks (Proper ODEs, section 3.2, Fig 22)?"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from anydepth.runs.folder import Run
from anydepth_papers.data.landscape import true_field
from anydepth_papers.experiments import EXPERIMENTS
from anydepth_papers.experiments.proper_crossings import SETTINGS
from anydepth_papers.judge.experiment import Claim, ClaimVerdict, Experiment, Findings
from anydepth_papers.judge.rules import all_of, computed, no_worse
from anydepth_papers.judge.study import Study
from anydepth_papers.nets.flows import LANDSCAPE, Task, block_of, of_every_seed
from anydepth_papers.studies.potentials import potential

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Real = NDArray[np.float64]
Field = Callable[[Real], Real]

NEAR = 0.3
"""A sink belongs to a minimum at most so far away; the minima are over 1.1 apart."""
BOX = ((-1.5, 2.5), (-2.5, 2.5))
"""Where zeros are looked for: around all starting points."""
_SIDE, _ITERATIONS, _ROUNDING = 21, 40, 1e-9
MOST_SINKS = 1
"""That a learnt field may have at the three minima, on average over nets, for the sinks to count as absent."""
ABSENT = Claim(
    f"The true field has a sink at each of its three minima, a learnt one at most {MOST_SINKS} on average",
    "P section 3.2, Fig 22",
    "noticeably absent",
)


def run(study: Study) -> Findings:
    task: Task = study.settings
    steps = max(task.euler)
    study.plan(len(study.seeds))
    weights = of_every_seed(study, LANDSCAPE, task, "euler", steps, _layers)
    minima = np.stack([np.append(place, 0.0) for place in potential(3, 1).minima])
    fields = {"true": true_field} | {
        f"seed {seed}": mlp(one) for seed, one in zip(study.seeds, weights, strict=True) if one is not None
    }
    found = {name: _described(field, minima) for name, field in fields.items()}
    rows = tuple(
        (name, len(one["zeros"]), len(one["sinks"]), one["near"], one["cosine"], one["size"])
        for name, one in found.items()
    )
    columns = ("field", "zeros", "sinks", "sinks at minima", "cosine with the true field", "size / true size")
    notes = (
        f"Three minima, Euler with {steps} steps; the nets are those of `crossings`. Changes of the published "
        f"settings: {', '.join(task.settings) or 'none'}.",
        f"Zeros in {BOX[0]} x {BOX[1]} by Newton's method from {_SIDE} x {_SIDE} starts. A sink is a zero where all "
        f"eigenvalues of the Jacobian have negative real parts; it is at a minimum if it is within {NEAR} of it.",
        "Cosine and size are means over the box of starting points.",
        f"Figure: fields, and trajectories from {len(_starts())} points: to t = 1 of the nets, to t = {_REST:g} of the "
        "true field.",
    )
    return Findings(columns, rows, (_verdict(found),), lambda: _draw(fields, found, minima), notes)


def _layers(run: Run | None) -> list[list] | None:
    if run is None:
        return None
    return [
        np.round(tensor.detach().double().numpy(), 6).tolist() for tensor in block_of(run.model()).theta(0).values()
    ]


def mlp(weights: list[list]) -> Field:
    """The field of an MLP from its weights and biases, layer by layer."""
    layers = [np.array(values, np.float64) for values in weights]

    def field(states: Real) -> Real:
        for i in range(0, len(layers), 2):
            states = (states if i == 0 else np.maximum(states, 0)) @ layers[i].T + layers[i + 1]
        return states

    return field


def jacobian(field: Field, states: Real, width: float = 1e-6) -> Real:
    """d field_i / d state_j at states (n, 2), by central differences."""
    shifts = width * np.eye(states.shape[1])
    return np.stack([(field(states + shift) - field(states - shift)) / (2 * width) for shift in shifts], axis=-1)


def zeros(field: Field) -> Real:
    """The zeros that Newton's method finds in the box, each once."""
    at = _mesh(_SIDE)
    for _ in range(_ITERATIONS):
        slopes, values = jacobian(field, at), field(at)
        is_regular = np.abs(np.linalg.det(slopes)) > 1e-12
        at, slopes, values = at[is_regular], slopes[is_regular], values[is_regular]
        move = np.linalg.solve(slopes, values[..., None])[..., 0]
        at = at - move * np.minimum(1, 0.5 / np.maximum(np.linalg.norm(move, axis=1, keepdims=True), 1e-300))
    low, high = np.array(BOX).T
    is_zero = (np.abs(field(at)).max(1, initial=0) < _ROUNDING) & ((at >= low) & (at <= high)).all(1)
    found: list[Real] = []
    for place in at[is_zero]:
        if all(np.linalg.norm(place - other) > 1e-4 for other in found):
            found.append(place)
    return np.array(found).reshape(-1, 2)


def _mesh(side: int) -> Real:
    x, v = np.meshgrid(*(np.linspace(*bounds, side) for bounds in BOX))
    return np.stack([x.ravel(), v.ravel()], axis=1)


def _described(field: Field, minima: Real) -> dict[str, Any]:
    at = zeros(field)
    is_sink = (np.linalg.eigvals(jacobian(field, at)).real < 0).all(1) if len(at) else np.zeros(0, bool)
    sinks = at[is_sink]
    gaps = np.linalg.norm(minima[:, None] - sinks[None], axis=2)
    states = _mesh(40)
    states = states[(states[:, 0] >= -1) & (states[:, 0] <= 2) & (np.abs(states[:, 1]) <= 2)]
    ours, theirs = field(states), true_field(states)
    sizes, true_sizes = np.linalg.norm(ours, axis=1), np.linalg.norm(theirs, axis=1)
    return {
        "zeros": at.tolist(),
        "sinks": sinks.tolist(),
        "near": int((gaps < NEAR).any(1).sum()),
        "cosine": float(np.mean((ours * theirs).sum(1) / (sizes * true_sizes))),
        "size": float(np.mean(sizes) / np.mean(true_sizes)),
    }


def _verdict(found: dict[str, dict[str, Any]]) -> ClaimVerdict:
    near = [one["near"] for name, one in found.items() if name != "true"]
    true = found["true"]["near"]
    told = f"the true field has {true} sinks at its minima, the nets of {len(near)} seeds {', '.join(map(str, near))}"
    few = no_worse([-float(n) for n in near], [0.0] * len(near), MOST_SINKS, paired=True, unit="sinks", resolution=1)
    return ClaimVerdict(ABSENT, told, all_of(computed(true == 3, f"{true} sinks of the true field"), few))


_REST, _LINES = 20.0, 2000
"""Until when the true field is followed, in how many steps."""


def _starts() -> Real:
    x, v = np.meshgrid(np.linspace(-0.9, 1.9, 6), np.linspace(-1.8, 1.8, 5))
    return np.stack([x.ravel(), v.ravel()], axis=1)


def followed(field: Field, end: float, steps: int) -> Real:
    """Trajectories (time, points, 2) of the starting points, by Euler's method."""
    states = [_starts()]
    for _ in range(steps):
        states.append(states[-1] + end / steps * field(states[-1]))
    return np.stack(states)


def _draw(fields: dict[str, Field], found: dict[str, dict[str, Any]], minima: Real) -> "Figure":
    import matplotlib.pyplot as plt

    shown = list(fields)[:6]
    columns = min(3, len(shown))
    figure, axes = plt.subplots(
        -(-len(shown) // columns),
        columns,
        figsize=(11, 3.6 * -(-len(shown) // columns)),
        squeeze=False,
        layout="constrained",
    )
    for place, name in zip(axes.flat, shown, strict=False):
        _arrows(place, fields[name])
        paths = followed(fields[name], _REST, _LINES)[::8] if name == "true" else followed(fields[name], 1.0, 256)[::4]
        place.plot(paths[..., 0], paths[..., 1], color="#1a1a1a", linewidth=0.6, alpha=0.7)
        place.plot(*minima.T, "o", color="#c2571a", markersize=6, fillstyle="none", label="minimum")
        sinks = np.array(found[name]["sinks"]).reshape(-1, 2)
        place.plot(*sinks.T, "*", color="#c2571a", markersize=10, linestyle="", label="sink")
        place.set(title="true field" if name == "true" else f"learnt, {name}", xlabel="x", ylabel="v")
        place.set(xlim=BOX[0], ylim=BOX[1])
    axes[0][0].legend(fontsize=8, loc="upper right")
    for place in axes.flat[len(shown) :]:
        place.axis("off")
    return figure


def _arrows(place: "Axes", field: Field) -> None:
    """Directions as arrows of one length, sizes as colours."""
    states = _mesh(22)
    u, v = field(states).T
    size = np.hypot(u, v) + 1e-12
    place.quiver(*states.T, u / size, v / size, np.log10(size), cmap="viridis", scale=28, width=0.004, pivot="mid")


EXPERIMENTS.add(
    "fields",
    Experiment("Does a net learn the true field?", "Proper ODEs, section 3.2, Fig 22", SETTINGS, run, seeds=5),
)
