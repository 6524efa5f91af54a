"""Forms of trained image nets beside each other: rows of a table, and claims about each of the nets."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from torch import nn

from anydepth.recipes import RECIPES
from anydepth.runs.config import RunConfig
from anydepth.runs.folder import Run
from anydepth.runs.override import override
from anydepth_papers.judge.rules import Judgement, all_of, instance_groups_better, instance_no_worse, undecided
from anydepth_papers.judge.study import Study
from anydepth_papers.judge.wording import points, spread
from anydepth_papers.nets.image_configs import image_config
from anydepth_papers.nets.image_nets import SMOKE, Exam, Look, common_seeds, found_net, is_done, unpacked, waits_for
from anydepth_papers.nets.stateful_nets import LATER

COLUMNS = (
    "net",
    "form",
    "as it is (%)",
    "recalibrated (%)",
    "evaluations",
    "ms per image",
    "parameters",
    "seeds",
)
NOTES = (
    "Accuracy: mean (lowest to highest) over the nets of all seeds that are done.",
    "Evaluations are those of residual units for one image in all blocks; milliseconds: one thread, a batch of 100, "
    "the fastest of five passes.",
)
HALVED = "half of K and N"
Forms = dict[str, dict[str, Any]]
"""By the name of a form: what an exam found."""
Found = dict[str, dict[int, Any]]
"""By net and seed: {"forms": Forms, "order": their names, ...}."""


def looked(exam: Exam, forms: Mapping[str, nn.Module], choosing: bool = False) -> dict[str, Any]:
    """What an exam finds in every form; their order too, which JSON does not keep."""
    return {"forms": {name: exam(form, choosing) for name, form in forms.items()}, "order": list(forms)}


def as_trained(model: nn.Module, exam: Exam) -> dict[str, Any]:
    """A net that is only looked at as it was trained."""
    return looked(exam, {"as trained": model})


def rows_of(found: Found, titles: Mapping[str, str]) -> tuple[tuple[Any, ...], ...]:
    """A row for every form of every net that is there."""
    nets = {name: list(seeds.values()) for name, seeds in found.items() if seeds}
    return tuple(
        row(titles[name], form, [one["forms"] for one in seen])
        for name, seen in nets.items()
        for form in seen[0]["order"]
    )


def row(title: str, form: str, seeds: Sequence[Forms]) -> tuple[Any, ...]:
    """One form, over the nets of all seeds."""
    seen = [forms[form] for forms in seeds]
    accuracies = accuracies_of(seen), accuracies_of(seen, again=True)
    cost = (seen[0]["evaluations"], time_of(seen), seen[0]["parameters"], len(seen))
    return (title, form, *(spread(values) for values in accuracies), *cost)


def time_of(seen: Sequence[dict[str, Any]]) -> float | None:
    """Mean milliseconds of the nets that get to an end; None where all diverge."""
    times = [one["milliseconds"] for one in seen if one["milliseconds"] is not None]
    return round(float(np.mean(times)), 3) if times else None


def accuracies_of(seen: Sequence[dict[str, Any]], again: bool = False) -> list[float]:
    """As they are, or recalibrated."""
    return [(one["recalibrated"] if again else one)["accuracy"] for one in seen]


def answers_of(form: dict[str, Any], again: bool = False) -> list[bool]:
    return unpacked((form["recalibrated"] if again else form)["answers"])


def right_of(forms: Forms, names: Sequence[str], again: bool = False) -> list[int]:
    """How many of several forms answer each test image correctly."""
    return np.sum([answers_of(forms[name], again) for name in names], axis=0).tolist()


def each(nets: Sequence[Any], rule: Callable[[Any], Judgement]) -> Judgement:
    """A claim about every one of these nets."""
    judged = [rule(net) for net in nets]
    return judged[0] if len(judged) == 1 else all_of(*judged)


def no_worse(forms: Forms, mine: str, other: str, margin: float) -> Judgement:
    """One form of a net against another, as they are."""
    return instance_no_worse(answers_of(forms[mine]), answers_of(forms[other]), margin)


def better(forms: Forms, mine: Sequence[str], other: Sequence[str]) -> Judgement:
    """Some forms of a net together against as many others, as they are: answers to one image are one group."""
    right = right_of(forms, mine), right_of(forms, other)
    return instance_groups_better(*right, [len(mine)] * len(right[0]))


def loses_less(mine: Forms, form: str, other: Forms, its: str, again: bool = False) -> Judgement:
    """Whether a net loses fewer answers from as trained to a form than another net does to one of its forms."""
    kept = np.add(right_of(mine, [form], again), right_of(other, ["as trained"]))
    lost = np.add(right_of(other, [its], again), right_of(mine, ["as trained"]))
    return instance_groups_better(kept.tolist(), lost.tolist(), [1] * len(kept))


def best_of(forms: Forms, again: bool, ending: str) -> str:
    """The best of the forms with such a name: recalibrated by validation images; as they are by test images."""
    short = [name for name in forms if name.endswith(ending)]
    return max(short, key=lambda name: forms[name]["validation" if again else "accuracy"])


def lost_by(forms: Forms, name: str, again: bool) -> float:
    """Points from as trained to a form, as it is or recalibrated."""
    return forms["as trained"]["accuracy"] - accuracies_of([forms[name]], again)[0]


def halves_compared(pairs: Sequence[tuple[Forms, Forms]], again: bool) -> tuple[str, Judgement]:
    """Half of the functions and steps of each net, beside the best form of a ResNet with half of its units."""
    best = [best_of(its, again, " to half") for _, its in pairs]
    lost = [lost_by(mine, HALVED, again) for mine, _ in pairs]
    its = [lost_by(forms, form, again) for (_, forms), form in zip(pairs, best, strict=True)]
    told = f"{points(lost)} points lost; the ResNet {points(its)} ({', '.join(dict.fromkeys(best))})"
    both = list(zip(pairs, best, strict=True))
    return told, each(both, lambda one: loses_less(one[0][0], HALVED, one[0][1], one[1], again))


def depth_of(found: Found, name: str, shallow: str = "resnet-1") -> Judgement | None:
    """Undecided where a net is not more than 5 points above a net of depth 1 trained from scratch, not run where there
    is none; else None."""
    both = common_seeds(found, name, shallow)
    if not both:
        return waits_for(found, name, shallow)
    gains = [_trained(found, name, seed) - _trained(found, shallow, seed) for seed in both]
    text = f"within 5 points of a net of depth 1 trained from scratch ({spread(gains)} above): decides nothing on depth"
    return None if float(np.mean(gains)) > 5 else undecided(text)


def _trained(found: Found, name: str, seed: int) -> float:
    return found[name][seed]["forms"]["as trained"]["accuracy"]


def later_net(study: Study, title: str, seed: int) -> Run | None:
    """A net that was declared for later: the campaign's where it has it; tiny at smoke scale."""
    if study.scale == "cpu":
        return found_net(study, title, seed) if is_done(study, title, seed) else None
    return study.trained(f"image-{title}", later_config(title, seed, study.scale))


def later_config(title: str, seed: int, scale: str) -> RunConfig:
    """At smoke or paper scale; at paper scale with the channels and epochs of the deep net."""
    model, grows = next((make(), grows) for name, _, make, grows in LATER if name == title)
    channels, pool = ([16, 32, 64], 8) if scale == "paper" else (SMOKE["channels"], SMOKE["pool"])
    options = model.options | {"channels": channels, "pool": pool}
    if scale == "smoke":
        return image_config(seed, SMOKE, SMOKE["at"] if grows else (), **options)
    recipe = override(RECIPES["stateful-cifar10-deep"](), [f"seed={seed}", f"refine.at={[20, 40, 70] * grows}"])
    return recipe.model_copy(update={"model": model.model_copy(update={"options": options})})


def looked_at(study: Study, titles: Sequence[str], look: Look) -> Found:
    """What `look` finds in every net for later that is there, by title and seed; every look is a piece."""
    study.plan(len(titles) * len(study.seeds))
    found: Found = {title: {} for title in titles}
    for seed in study.seeds:
        for title in titles:
            run = later_net(study, title, seed)
            if run is not None:
                key = f"{title}-{seed}"
                found[title][seed] = study.piece(key, lambda r=run: look(r.model(), Exam(study, r)))
    return found
