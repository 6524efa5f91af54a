"""Table 1 of Proper ODEs: the rules that compare a search over steps with controllers, and the verdicts on them."""

from typing import Any

import numpy as np

from anydepth.reproduce.experiment import Claim, Verdict
from anydepth.reproduce.flows import AGREEMENT
from anydepth.reproduce.judging import is_above, spread

UNVARIED = "steady, not varied"
TABLE = {
    "spheres": ("NFE 100.5, 98.9 +- 0.6 %; grid 65 to 129, 99.2 +- 0.8 %", 100.5),
    "landscape": ("NFE 43.3, 76.5 +- 1.6 %; grid 33 to 65, 79.0 +- 2.6 %", 43.3),
    "mnist": ("NFE 9.8, 95.6 +- 0.5 %; grid 9 to 17, 96.5 +- 0.2 %", 9.8),
    "cifar10": ("NFE 21.9, 55.0 +- 0.8 %; grid 17 to 33, 54.7 +- 0.3 %", 21.9),
}


def coarsest(nets: dict[int, dict[str, Any] | None]) -> dict[str, Any] | None:
    """Also with the accuracy of the best proper net."""
    found, proper = None, [one["accuracy"] for one in nets.values() if one and one["proper"]]
    for _, one in sorted(nets.items(), reverse=True):
        if one is not None and not one["proper"]:
            break
        found = one or found
    return None if found is None else found | {"best": max(proper)}


def steps_of(one: dict[str, Any]) -> int:
    """The number of steps that a net is left with."""
    return one["steps"][-1][1] if "steps" in one else one["nfe"]


def verdicts_on(name: str, title: str, found: dict[str, list[dict[str, Any] | None]]) -> list[Verdict]:
    paper, trios = found["paper"], _complete(found, "grid", "paper", "steady")
    published, nfe = TABLE[name]
    good = [one for one in paper if one]
    on_par = Claim(f"{title}: Algorithm 1 finds the steps and the accuracy of a grid search", "P Table 1", published)
    calm = Claim(f"{title}: a controller without oscillation", "P section 6, future work", "not investigated")
    verdicts = [_on_par(on_par, trios)]
    if good:
        mean = float(np.mean([one["nfe"] for one in good]))
        verdicts += [
            Verdict(
                Claim(f"{title}: Algorithm 1 needs {nfe} evaluations per iteration", "P Table 1", str(nfe)),
                f"{spread([one['nfe'] for one in good], 1)}, checks included",
                0.5 <= mean / nfe <= 2,
            ),
            Verdict(
                Claim(f"{title}: Algorithm 1 ends with an ODE", "P section 5", "time-continuous dynamics"),
                f"{sum(one['proper'] for one in good)} of {len(paper)} seeds proper; accuracy changes by "
                f"{spread([one['change'] for one in good], 1)} points",
                all(one is not None and one["proper"] for one in paper),
            ),
            Verdict(
                Claim(f"{title}: the number of steps fluctuates to the end", "P section 5.1, Fig 5, 6", "fluctuates"),
                f"{spread([one['late changes'] for one in good], 1)} changes in the last half",
                min(one["late changes"] for one in good) >= 5,
            ),
        ]
    return [*verdicts, _better(calm, found), _varying(title, _complete(found, "steady", UNVARIED))]


def _complete(found: dict[str, list[dict[str, Any] | None]], *methods: str) -> list[tuple[Any, ...]]:
    """The nets of every seed by these methods, where there are all of them."""
    return [nets for nets in zip(*(found[method] for method in methods), strict=True) if all(nets)]


def _on_par(claim: Claim, trios: list[tuple[Any, ...]]) -> Verdict:
    if not trios:
        return Verdict(claim, "no seed has both a proper net in the grid and a training that succeeded", None)
    gaps = [paper["accuracy"] - grid["accuracy"] for grid, paper, _ in trios]
    ratios = [paper["nfe"] / grid["nfe"] for grid, paper, _ in trios]
    told = f"{spread(ratios)} times the evaluations of the grid's coarsest proper net, accuracy {spread(gaps)} points"
    return Verdict(claim, f"{told} apart", float(np.mean(ratios)) <= 1.5 and float(np.mean(gaps)) >= -3)


def _better(claim: Claim, found: dict[str, list[dict[str, Any] | None]]) -> Verdict:
    """Few changes, fewer evaluations than Algorithm 1, proper, and as accurate as the best proper net of the grid."""
    pairs, trios = _complete(found, "paper", "steady"), _complete(found, "grid", "paper", "steady")
    count = len(found["steady"])
    if len(pairs) < count or not trios:
        told = f"{len(pairs)} of {count} trainings succeeded with both controllers"
        return Verdict(claim, f"{told}, {len(trios)} of them with a proper net in the grid", False if pairs else None)
    changes = [ours["late changes"] for _, ours in pairs]
    gaps = [ours["accuracy"] - grid["best"] for grid, _, ours in trios]
    error = float(np.std(gaps, ddof=1)) / len(gaps) ** 0.5 if len(gaps) > 1 else 0.0
    cost = float(np.mean([ours["nfe"] / paper["nfe"] for paper, ours in pairs]))
    proper = sum(ours["proper"] and ours["agreement"] >= AGREEMENT for _, ours in pairs)
    among = "" if len(trios) == count else f", for the {len(trios)} of {count} seeds with one"
    told = (
        f"`steady` changes the steps {spread(changes, 1)} times in the last half (Algorithm 1: "
        f"{spread([paper['late changes'] for paper, _ in pairs], 1)}), needs {cost:.2f} times its evaluations, "
        f"{proper} of {count} seeds proper by accuracy and by agreement, accuracy {spread(gaps)} points (standard "
        f"error {error:.2f}) from the best proper net of the grid{among} (Algorithm 1: "
        f"{spread([paper['accuracy'] - grid['best'] for grid, paper, _ in trios])})"
    )
    is_accurate = float(np.mean(gaps)) >= -max(1.0, 2 * error)
    return Verdict(claim, told, max(changes) <= 2 and cost <= 0.8 and proper == count and is_accurate)


def _varying(title: str, pairs: list[tuple[Any, ...]]) -> Verdict:
    claim = Claim(f"{title}: `steady` learns more when the steps vary from pass to pass", "anydepth")
    if not pairs:
        return Verdict(claim, "no seed has both nets", None)
    gaps = [varied["accuracy"] - plain["accuracy"] for varied, plain in pairs]
    cost = [spread([pair[i]["nfe"] for pair in pairs], 1) for i in (0, 1)]
    ends = [spread([steps_of(pair[i]) for pair in pairs], 0) for i in (0, 1)]
    told = (
        f"accuracy {spread(gaps)} points above that without it; {cost[0]} against {cost[1]} evaluations per iteration, "
        f"{ends[0]} against {ends[1]} steps at the end"
    )
    return Verdict(claim, told, is_above(gaps))


def robust(variations: dict[str, list[dict[str, Any] | None]]) -> Verdict:
    claim = Claim("Algorithm 1 is robust against small changes to its constants", "P section 5", "robust")
    everything = [one for some in variations.values() for one in some]
    if not all(everything):
        return Verdict(claim, f"{everything.count(None)} of {len(everything)} trainings failed", False)
    accuracy = {label: float(np.mean([one["accuracy"] for one in some if one])) for label, some in variations.items()}
    cost = {label: float(np.mean([one["nfe"] for one in some if one])) for label, some in variations.items()}
    proper = sum(one["proper"] for one in everything if one)
    first = next(iter(variations))
    told = "; ".join(f"{label} {accuracy[label]:.1f} %, {cost[label]:.1f}" for label in variations)
    is_near = all(
        abs(accuracy[label] - accuracy[first]) <= 5 and 0.5 <= cost[label] / cost[first] <= 2 for label in cost
    )
    return Verdict(
        claim,
        f"accuracy and evaluations per iteration: {told}; {proper} of {len(everything)} proper",
        is_near and proper == len(everything),
    )
