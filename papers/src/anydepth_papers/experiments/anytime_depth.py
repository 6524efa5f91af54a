"""Depth per example: does a net that answers as soon as it is sure keep its bound, and what does it save?

A coarse form of a net answers first, and finer forms only where it is unsure. It is compared with the net's finest
form, with the same forms stopped by a threshold on the largest probability, with the best fixed form of the same cost,
and with a cascade of two ResNets trained separately, stopped by the same rule (on CIFAR-10 two of the campaign, where
they are trained).
"""

from typing import TYPE_CHECKING, Any

import numpy as np

from anydepth.recipes import RECIPES
from anydepth.runs.config import ModelSettings, RefineSettings, RunConfig
from anydepth.runs.folder import Run, open_run
from anydepth.runs.override import override
from anydepth_papers.experiments import EXPERIMENTS
from anydepth_papers.judge.experiment import Claim, ClaimVerdict, Experiment, Findings
from anydepth_papers.judge.rules import Judgement, computed, not_run, undecided
from anydepth_papers.judge.study import Study
from anydepth_papers.studies.anytime_look import looked_at, seen_cascade, seen_forms

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SHARE, TIME, KEPT, LEAST = 0.5, 0.65, 0.95, 80.0
"""Of the finest form's evaluations and time; of the halves; per cent that the net on CIFAR-10 must have."""
COMMON: dict[str, Any] = {"max_drop": 0.5, "confidence": 0.95, "batch": 64}
SMOKE = COMMON | {
    "max_drop": 5.0,
    "images": {"digits": [600, 600]},
    "halves": 5,
    "statistics": 2,
    "timed": 2,
    "rounds": 2,
}
CPU = COMMON | {
    "images": {"mnist": [5_000, 10_000], "cifar10": [5_000, 10_000]},
    "halves": 200,
    "statistics": 40,
    "timed": 20,
    "rounds": 9,
}
SETTINGS = {"smoke": SMOKE, "cpu": CPU, "paper": CPU}
"""`images`: of validation and test by dataset; `statistics`: training batches for the statistics of coarse forms;
`timed`: batches that are timed."""
NETS = {"mnist": "MNIST", "cifar10": "CIFAR-10"}
CAMPAIGN_NET = "hats-midpoint-0"
SMALL, LARGE = 1, 4
"""Residual units a stage of the two ResNets on MNIST."""
CAMPAIGN_CASCADE = ("resnet-1-0", "resnet-8-0")
EARLY_CASCADE = ("resnet-1-0", "resnet-2-0")
"""Shown beside it without a verdict, since these nets are trained earlier; the large one is less accurate."""
NO_CASCADE = f"cost: hours each for {' and '.join(CAMPAIGN_CASCADE)}, by `anydepth campaign`"

KINDS = {
    "evaluations": f"At most {SHARE:g} of the evaluations on average",
    "time": f"At most {TIME:g} of the wall time in batches of {COMMON['batch']}",
    "bound": f"The drop stays within its bound in at least {100 * KEPT:g} % of all random halves",
    "largest": "Fewer evaluations than with a threshold on the largest probability, at the same bound",
    "fixed": "More accurate than the best fixed form of at most its cost",
    "cascade": "At most its bound below a cascade of two ResNets, with no more evaluations",
}
CLAIMS = {
    (net, kind): Claim(f"{NETS[net]}: {text[0].lower()}{text[1:]} (this net, these test images)", "ours")
    for net in NETS
    for kind, text in KINDS.items()
}
COLUMNS = ("net", "rule", "forms", "accuracy (%)", "drop", "evaluations", "share", "time", "bound kept")


def run(study: Study) -> Findings:
    study.plan(8)
    found: dict[str, Any] = {"mnist": looked_at(study, "mnist", lambda: seen_forms(study, _mnist(study)))}
    found["mnist-cascade"] = looked_at(study, "mnist-cascade", lambda: seen_cascade(study, *_resnets(study)))
    net = _of_campaign(study, CAMPAIGN_NET)
    if study.has("cifar10") or net is not None:
        found["cifar10"] = looked_at(study, "cifar10", lambda: seen_forms(study, _there(net)))
    for name, titles in (("cifar10-cascade", CAMPAIGN_CASCADE), ("cifar10-early-cascade", EARLY_CASCADE)):
        pair = [_of_campaign(study, title) for title in titles]
        if study.has(name) or None not in pair:
            found[name] = looked_at(study, name, lambda pair=pair: seen_cascade(study, *map(_there, pair)))
    verdicts = tuple(_verdict(study, found, net, kind, claim) for (net, kind), claim in CLAIMS.items())
    return Findings(COLUMNS, tuple(_rows(found)), verdicts, lambda: _draw(found), _NOTES)


_NOTES = (
    "Claims are about these nets and these test images: figures of other nets may differ. Halves of the same images "
    "overlap, so that no interval is made from them.",
    "Validation images calibrate and test images judge; the halves are random cuts of the test images, one half "
    "calibrates and the other judges.",
    "Lost: the finest form is right and the answer wrong. The bound is on the share lost; the drop is at most that.",
    "Coarse forms have running statistics of their own, from augmented training images.",
    "Evaluations of residual units for one image, all passes added up; stitches are not counted. Time: one thread, "
    "frozen networks, batches of 64, median of ratios in turns with the finest form.",
    f"The cascade on CIFAR-10 needs {' and '.join(CAMPAIGN_CASCADE)} of the campaign: `anydepth campaign`, hours each. "
    f"One of {' and '.join(EARLY_CASCADE)} is shown beside it, without a verdict, where these are trained.",
)


def _mnist(study: Study) -> Run:
    return study.trained("anytime-mnist", mnist_config(study.scale))


def _resnets(study: Study) -> tuple[Run, Run]:
    return tuple(study.trained(f"anytime-resnet-{n}", resnet_config(study.scale, n)) for n in (SMALL, LARGE))  # pyright: ignore


def mnist_config(scale: str) -> RunConfig:
    """The recipe; a tiny net on digits at smoke scale."""
    if scale != "smoke":
        return override(RECIPES["mnist"](), ["threads=1"])
    digits = override(RECIPES["digits"](), ["training.epochs=2", "refine.at=[1]", "data.validation=400", "threads=1"])
    return override(digits, ["model.options.channels=[4,8]", "model.options.scheme=rk4", "model.options.steps=2"])


def resnet_config(scale: str, layers: int) -> RunConfig:
    """The same training of a plain ResNet."""
    config = mnist_config(scale)
    kept = {key: value for key, value in config.model.options.items() if key in ("channels", "pool")}
    model = ModelSettings(name="resnet", options={**kept, "layers": layers if scale != "smoke" else min(layers, 2)})
    return config.model_copy(update={"model": model, "refine": RefineSettings()})


def _of_campaign(study: Study, name: str) -> Run | None:
    """A net of the campaign once it is done."""
    folder = study.nets / name
    if study.scale == "smoke" or not (folder / "model.json").exists():
        return None
    return open_run(folder)


def _there(run: Run | None) -> Run:
    assert run is not None
    return run


def _verdict(study: Study, found: dict[str, Any], net: str, kind: str, claim: Claim) -> ClaimVerdict:
    if net not in found:
        return ClaimVerdict(claim, "", not_run("waiting for the campaign's net"))
    if kind == "cascade" and f"{net}-cascade" not in found:
        return ClaimVerdict(claim, "", not_run(NO_CASCADE))
    if net == "cifar10" and found[net]["forms"][-1]["test_accuracy"] < LEAST:
        return ClaimVerdict(claim, "", not_run(f"the net has less than {LEAST:g} %"))
    judgement = _judged(study, found, net, kind)
    return ClaimVerdict(claim, judgement.text, judgement)


def _judged(study: Study, found: dict[str, Any], net: str, kind: str) -> Judgement:
    mine, halves, bound = found[net]["risk"], found[net]["halves"], study.settings["max_drop"]
    if kind == "evaluations":
        return computed(
            mine["share"] <= SHARE,
            f"{mine['evaluations']:.2f} of {found[net]['forms'][-1]['evaluations']} ({mine['share']:.3f}), "
            f"drop {mine['drop']:+.2f} points, allowed {bound:g}",
        )
    if kind == "time":
        return computed(found[net]["time"]["ratio"] <= TIME, f"{found[net]['time']['ratio']:.3f} of the time")
    if kind == "bound":
        kept = [row["risk"]["drop"] <= bound for row in halves]
        worst = max(row["risk"]["drop"] for row in halves)
        return computed(
            sum(kept) >= KEPT * len(kept), f"{sum(kept)} of {len(kept)} halves; the largest drop is {worst:.2f}"
        )
    if kind == "cascade":
        return _against_cascade(mine, found[f"{net}-cascade"]["risk"], bound)
    return _over_halves(halves, kind)


def _against_cascade(mine: dict[str, Any], its: dict[str, Any], bound: float) -> Judgement:
    text = (
        f"{mine['accuracy']:.2f} % with {mine['evaluations']:.2f} evaluations against {its['accuracy']:.2f} % with "
        f"{its['evaluations']:.2f}"
    )
    return computed(its["accuracy"] - mine["accuracy"] <= bound and mine["evaluations"] <= its["evaluations"], text)


def _over_halves(halves: list[dict[str, Any]], kind: str) -> Judgement:
    """Means over the halves."""
    if kind == "largest":
        mine, its = (
            float(np.mean([row[rule]["evaluations"] for row in halves])) for rule in ("risk", "largest probability")
        )
        return computed(mine < its, f"{mine:.2f} against {its:.2f} evaluations, means over {len(halves)} halves")
    pairs = [(row["risk"]["accuracy"], row["fixed"]["accuracy"]) for row in halves if row["fixed"] is not None]
    if not pairs:
        return undecided("no fixed form is as cheap")
    mine, its = map(float, np.mean(pairs, axis=0))
    return computed(mine > its, f"{mine:.2f} against {its:.2f} %, means over {len(pairs)} halves")


def _rows(found: dict[str, Any]) -> list[tuple[Any, ...]]:
    rows = []
    for name, one in found.items():
        title = _title(name)
        for form in one["forms"]:
            share = form["evaluations"] / one["forms"][-1]["evaluations"]
            rows.append(
                (
                    title,
                    "fixed",
                    form["form"],
                    round(form["test_accuracy"], 2),
                    None,
                    form["evaluations"],
                    round(share, 3),
                    None,
                    None,
                )
            )
        rows += [_row(title, one, rule) for rule in ("risk", "largest probability")]
    return rows


def _title(name: str) -> str:
    net, _, cascade = name.partition("-")
    return NETS[net] + {"": "", "cascade": ", two ResNets", "early-cascade": ", two small ResNets"}[cascade]


def _row(title: str, one: dict[str, Any], rule: str) -> tuple[Any, ...]:
    mine = one[rule]
    kept = np.mean([row[rule]["drop"] <= CPU["max_drop"] for row in one["halves"]])
    stops = ", ".join(f"{form} {100 * share:.0f} %" for form, share in zip(mine["forms"], mine["stops"], strict=True))
    time = round(one["time"]["ratio"], 3) if rule == "risk" else None
    figures_of = (round(mine["accuracy"], 2), round(mine["drop"], 2), round(mine["evaluations"], 2))
    return title, rule, stops, *figures_of, round(mine["share"], 3), time, f"{100 * kept:.1f} %"


def _draw(found: dict[str, Any]) -> "Figure":
    import matplotlib.pyplot as plt

    figure, places = plt.subplots(
        1, len(found), figsize=(4.2 * len(found), 3.8), constrained_layout=True, squeeze=False
    )
    for place, (name, one) in zip(places[0], found.items(), strict=True):
        fixed = sorted((form["evaluations"], form["test_accuracy"]) for form in one["forms"])
        place.plot(*zip(*fixed, strict=True), "o", color="#5b5b5b", label="fixed forms")
        for rule, colour in (("risk", "#0b6e99"), ("largest probability", "#c2571a")):
            cloud = [(row[rule]["evaluations"], row[rule]["accuracy"]) for row in one["halves"]]
            place.plot(*zip(*cloud, strict=True), ".", color=colour, alpha=0.3, markersize=3)
            place.plot(one[rule]["evaluations"], one[rule]["accuracy"], "D", color=colour, label=f"stops by {rule}")
        best = one["forms"][-1]["test_accuracy"]
        place.axhline(best - CPU["max_drop"], color="black", linewidth=0.8, linestyle=":", label="bound")
        place.set(title=_title(name), xlabel="evaluations per image", ylabel="test accuracy (%)")
        place.set(xscale="log", ylim=(best - 6, best + 0.6))
        place.grid(alpha=0.25)
        place.legend(fontsize=7)
    return figure


EXPERIMENTS.add(
    "anytime",
    Experiment("Depth per example, with a bound on the drop", "anydepth; MNIST, CIFAR-10", SETTINGS, run, seeds=1),
)
