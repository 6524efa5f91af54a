"""Verdicts of `check` on models whose verdict is known beforehand (Proper ODEs, section 4)."""

from copy import deepcopy
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from anydepth.measure.distance import relative_distance
from anydepth.solve.adaptive import SolverError
from anydepth.solve.odeint import odeint
from anydepth.surgery.resize import set_solver
from anydepth.verdict.check import Verdict, check
from anydepth.verdict.row import SolverRow
from anydepth.verdict.rule import Limits
from anydepth_papers.cases import CheckArguments, KnownModel
from anydepth_papers.cases.closed import CLOSED
from anydepth_papers.cases.trained import TRAINED
from anydepth_papers.experiments import EXPERIMENTS
from anydepth_papers.judge.experiment import Claim, ClaimVerdict, Experiment, Findings
from anydepth_papers.judge.rules import Judgement, all_of, computed, proportion
from anydepth_papers.judge.study import Study

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_TIGHT: dict[str, Any] = {"rtol": 1e-8, "atol": 1e-8, "max_steps": 2000}
_TURN = ("a turn of 6, Euler x 4", "a turn of 6, RK4 x 16")
NEARLY_ALL = 0.9
"""Of all trained nets of such kinds; of the fields in closed form, every one."""
CROSS, DO_NOT = 1.0, 0.5
"""Per cent of pairs of trajectories that cross: more than the one, less than the other."""
JUDGED = {
    proper: Claim(
        f"every field in closed form that is {word} is judged so, and so are at least {100 * NEARLY_ALL:g} % of all "
        f"trained nets that are {word} for a reason known beforehand",
        "ours, after P section 4",
    )
    for proper, word in ((True, "proper"), (False, "tied"))
}
AGREES = Claim(
    "a model is judged proper where its outputs are those of the exact flow, and only there: every field in closed "
    f"form, at least {100 * NEARLY_ALL:g} % of all trained nets",
    "ours",
)
LARGER = Claim(
    "the critical step of RK4 is larger than that of Euler's method: a turn of 6 rad", "P section 4.1", "larger"
)
CROSSES = Claim(
    f"trajectories of a tied field cross, those of proper ones do not: more than {CROSS:g} % of pairs, less than "
    f"{DO_NOT:g} %, fields in closed form",
    "P Fig 1",
    "crossings with large steps only",
)


def oracle(given: CheckArguments) -> Tensor | None:
    """Outputs by Dormand-Prince at a tolerance of 1e-8 in double precision; None where that does not get to the end."""
    batch = given.batches[0]
    x = (batch if isinstance(batch, Tensor) else batch[0]).double()
    head = deepcopy(given.settings.get("head"))
    try:
        with torch.no_grad():
            if "scheme" not in given.settings:
                return set_solver(deepcopy(given.model).double(), scheme="dopri54", **_TIGHT)(x)
            field = deepcopy(given.model)
            field = field.double() if isinstance(field, nn.Module) else field
            head = head.double() if isinstance(head, nn.Module) else head
            end = odeint(field, x, (0, 1), method="dopri54", **_TIGHT)[-1]
            return end if head is None else head(end)  # pyright: ignore[reportReturnType]
    except SolverError:
        return None


def kept(before: Tensor, after: Tensor, classes: bool) -> float:
    """Per cent of predictions that stay; of outputs that are numbers, what is left of 100 % by their change."""
    if classes:
        return float(100 * (before.argmax(-1) == after.argmax(-1)).double().mean())
    return max(0.0, 100 * (1 - relative_distance(before, after)))


def examine(case: KnownModel, seed: int) -> dict[str, Any]:
    """The verdict on a case, and what the oracle says."""
    given = case.make(seed)
    verdict = check(given.model, given.batches, **given.settings)
    exact, classes = oracle(given), verdict.table[0].agreement is not None
    return {
        "proper": verdict.proper,
        "reason": verdict.reason,
        "kept": _lowest(verdict, classes),
        "exact": None if exact is None else kept(exact, _as_trained(given), classes),
        "order": verdict.order,
        "critical": verdict.critical_step,
        "crossing": verdict.crossing_rate,
    }


def _as_trained(given: CheckArguments) -> Tensor:
    batch = given.batches[0]
    x = batch if isinstance(batch, Tensor) else batch[0]
    with torch.no_grad():
        if "scheme" not in given.settings:
            return given.model(x).double()
        settings = {name: value for name, value in given.settings.items() if name != "head"}
        end = odeint(given.model, x, (0, 1), method=settings.pop("scheme"), **settings)[-1]
        head = given.settings.get("head")
        return (end if head is None else head(end)).double()  # pyright: ignore[reportAttributeAccessIssue]


def _lowest(verdict: Verdict, classes: bool) -> float:
    """Of all solvers that count, the least that stays the same."""

    def stays(row: SolverRow) -> float:
        if row.distance is None:
            return 0.0
        return (row.agreement or 0.0) if classes else max(0.0, 100 * (1 - row.distance))

    return min(stays(row) for row in verdict.table if row.counts)


def run(study: Study) -> Findings:
    settings: dict[str, Any] = study.settings
    cases = [*CLOSED[:: settings["every"]], *(TRAINED if settings["trained"] else ())]
    study.plan(len(cases) * len(study.seeds))
    found = {
        case.name: [
            study.piece(f"{_key(case.name)}-{seed}", lambda c=case, s=seed: examine(c, s)) for seed in study.seeds
        ]
        for case in cases
    }
    rows = tuple(_row(case, found[case.name]) for case in cases)
    columns = (
        "model",
        "is",
        "because",
        "judged right",
        "stays (%)",
        "exact (%)",
        "order",
        "critical step",
        "crossings (%)",
    )
    notes = (
        "Stays: the least share of predictions that survive any solver of smaller error (of numbers: 100 % less their "
        "change). Exact: the same for Dormand-Prince at 1e-8 in double precision, where it gets to t = 1. Both and the "
        "further columns are those of the first seed.",
        "Trained nets: 300 epochs of Adam on 400 points, drawn again until 90 % fit; every seed is a net of its own.",
    )
    return Findings(columns, rows, _findings(cases, found), lambda: _draw(cases, found), notes)


def _key(name: str) -> str:
    return "".join(c if c.isalnum() else "-" for c in name.lower())


def _row(case: KnownModel, seeds: list[dict[str, Any]]) -> tuple[Any, ...]:
    right = sum(one["proper"] == case.proper for one in seeds)
    first, crossing = seeds[0], seeds[0]["crossing"]
    return (
        case.name,
        _word(case.proper),
        case.because,
        f"{right} of {len(seeds)}",
        first["kept"],
        first["exact"],
        first["order"],
        first["critical"],
        None if crossing is None else 100 * crossing,
    )


def _word(proper: bool) -> str:
    return "proper" if proper else "tied"


def _findings(cases: list[KnownModel], found: dict[str, list[dict[str, Any]]]) -> tuple[ClaimVerdict, ...]:
    return (
        *(_judged(cases, found, proper) for proper in (True, False)),
        _agrees(cases, found),
        *_on_the_turn(cases, found),
    )


def _judged(cases: list[KnownModel], found: dict[str, list[dict[str, Any]]], proper: bool) -> ClaimVerdict:
    right = [(case, one["proper"] == proper) for case in cases if case.proper == proper for one in found[case.name]]
    return ClaimVerdict(JUDGED[proper], *_counted(right))


def _counted(right: list[tuple[KnownModel, bool]]) -> tuple[str, Judgement]:
    """Fields in closed form all at once, trained nets as draws from many."""
    closed, trained = ([good for case, good in right if case.is_trained is kind] for kind in (False, True))
    told = f"{sum(closed)} of {len(closed)} verdicts on fields in closed form, {sum(trained)} of {len(trained)} on nets"
    judged = computed(all(closed), f"{sum(closed)} of {len(closed)} in closed form")
    return told, all_of(judged, proportion(sum(trained), len(trained), NEARLY_ALL))


def _agrees(cases: list[KnownModel], found: dict[str, list[dict[str, Any]]]) -> ClaimVerdict:
    """The verdict and an exact solution, where there is one."""
    limit = Limits().agreement
    right = [
        (case, one["proper"] == (one["exact"] >= limit))
        for case in cases
        for one in found[case.name]
        if one["exact"] is not None
    ]
    return ClaimVerdict(AGREES, *_counted(right))


def _on_the_turn(cases: list[KnownModel], found: dict[str, list[dict[str, Any]]]) -> tuple[ClaimVerdict, ...]:
    """Claims on fields in closed form with given starting points: no chance is involved."""
    if not all(name in found for name in _TURN):
        return ()
    euler, rk4 = (found[name][0] for name in _TURN)
    clean = [found[case.name][0]["crossing"] for case in cases if case.proper and not case.is_trained]
    most, least = 100 * max(rate for rate in clean if rate is not None), 100 * euler["crossing"]
    steps = f"{rk4['critical']:.3g} against {euler['critical']:.3g}"
    rates = f"{least:.1f} % of the pairs with 4 Euler steps; proper fields {most:.2f} % at most"
    return (
        ClaimVerdict(LARGER, steps, computed(rk4["critical"] > euler["critical"], steps)),
        ClaimVerdict(CROSSES, rates, computed(least > CROSS and most < DO_NOT, rates)),
    )


def _draw(cases: list[KnownModel], found: dict[str, list[dict[str, Any]]]) -> "Figure":
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(9, 1.2 + 0.26 * len(cases)), constrained_layout=True)
    for place, case in enumerate(reversed(cases)):
        colour = "#0b6e99" if case.proper else "#c2571a"
        axes.plot([one["kept"] for one in found[case.name]], [place] * len(found[case.name]), "o", color=colour)
    axes.set_yticks(range(len(cases)), [case.name for case in reversed(cases)])
    axes.axvline(Limits().agreement, color="#5b6675", linestyle=":")
    axes.set(xlabel="what stays the same with any solver of smaller error (%)", xlim=(-2, 102))
    axes.set_title("Proper by construction (blue) and tied to the solver (orange); dotted: the limit")
    axes.grid(alpha=0.25)
    return figure


EXPERIMENTS.add(
    "verdicts",
    Experiment(
        "Verdicts on models that are known to be proper, or tied to their solver",
        "Proper ODEs, section 4",
        {
            "smoke": {"trained": False, "every": 4},
            "cpu": {"trained": True, "every": 1},
            "paper": {"trained": True, "every": 1},
        },
        run,
        seeds=6,
    ),
)
