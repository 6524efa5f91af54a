"""`ad.smooth`: a stack that others trained made fit for other depths, and what came of it in every form."""

from collections.abc import Callable, Iterable, Sequence
from copy import deepcopy
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from torch import Tensor, nn

from anydepth import artifact
from anydepth.data.order import Draw
from anydepth.data.order import batches as batches_of_epoch
from anydepth.data.table import Augment, Batch
from anydepth.deploy.recalibrate import BATCHES, recalibrate, training_batches
from anydepth.errors import AnydepthError, ConfigError, DataError, NumericalError, ShapeError
from anydepth.measure.answers import answer
from anydepth.measure.evaluation import batches_of, evaluating, fitting
from anydepth.measure.predictions import Reader, examples_of, is_finite
from anydepth.printing import text_table
from anydepth.reporting import Report
from anydepth.runs.folder import Run
from anydepth.surgery.align import align as aligned
from anydepth.surgery.blocks import blocks_of
from anydepth.surgery.forms import Form, form_of, in_form
from anydepth.surgery.resnet_blocks import as_blocks
from anydepth.surgery.views import PartialForm, View, read_form, smaller_sizes, usual_forms
from anydepth.train.any_depth import check_form
from anydepth.train.smoothing import Epoch, Smoothing, shuffled, smoothed, smoothing_forms
from anydepth.train.smoothing_state import SmoothingState, smoothing_state
from anydepth.zoo.models.resnet import ResNet

Model = TypeVar("Model", bound=nn.Module)


@dataclass(frozen=True)
class SmoothRow:
    """One form before and after, with batch statistics estimated anew, but for the model as it is; None where outputs
    are not finite."""

    form: str
    before: float | None
    after: float | None
    is_drawn: bool
    """Whether it was trained in, beside the model as it is."""


@dataclass(frozen=True)
class SmoothReport:
    """What smoothing did to every form of a model."""

    rows: tuple[SmoothRow, ...]
    metric: str
    """accuracy (%), agreement (%) with the teacher where there are no labels, or rmse to it."""
    evaluations: int
    """Of units, that the fine-tuning took; the teacher's count."""
    roughness: tuple[float, float]
    """Relative change of kernels from layer to layer, before (aligned, if that was asked for) and after."""

    def describe(self) -> dict[str, object]:
        """JSON values."""
        return asdict(self)

    def __str__(self) -> str:
        rows = [(row.form + (" *" if row.is_drawn else ""), _told(row.before), _told(row.after)) for row in self.rows]
        return f"{self.metric} of every form (* drawn)\n{text_table(('form', 'before', 'after'), rows)}"


def smooth(
    model: Model,
    batches: Iterable[object],
    teacher: nn.Module | None = None,
    epochs: int = 10,
    forms: Iterable[object] | None = None,
    *,
    validation: Iterable[object] | None = None,
    align: bool = True,
    classes: bool | None = None,
    report: Report | None = None,
    **settings: Any,
) -> tuple[Model, SmoothReport]:
    """A new model that keeps its accuracy at other depths and sizes, fine-tuned from a stack of layers; and a report.

    In every step the model as it is and drawn forms of it learn from the teacher, and a penalty on the differences over
    depth of its kernels makes neighbouring layers alike. The model given stays as it is.

    Args:
        batches: inputs, pairs of inputs and labels, or dicts of keywords; labels are only counted right or wrong.
        teacher: what to learn from; by default the model as it was.
        forms: numbers of steps, or mappings such as {"steps": 4, "size": 4}; by default half and a quarter of steps,
            size and both.
        validation: what the report is made on; by default the batches that were trained on, which flatters it.
        align: first bring the hidden units of neighbouring layers into the same order, which changes no output.
        classes: whether outputs are scores of classes; by default labels tell, and without labels they are.
        settings: penalty, draws, distill, lr, momentum, clip, temperature, seed; see `Smoothing`.
    """
    known = Smoothing.__dataclass_fields__
    odd = sorted(set(settings) - set(known))
    if odd:
        raise ConfigError(f"smooth has no setting {odd[0]!r}; expected some of {', '.join(known)}")
    found = _examples(batches, "batches to learn from")
    judged = found if validation is None else _examples(validation, "validation data to judge smoothing by")
    chosen = Smoothing(epochs=epochs, **settings)
    asked = None if forms is None else tuple(read_form(form) for form in forms)
    has_classes = _has_classes(found) if classes is None else classes
    if not chosen.distill and not all(batch.targets.numel() for batch in found):
        raise DataError("without distillation smoothing learns from labels, and these batches have none")
    epoch = shuffled(found, chosen.seed)
    return smooth_on(model, epoch, judged, found[:BATCHES], teacher, asked, chosen, align, has_classes, report)


def smooth_on(
    model: Model,
    epoch: Epoch,
    judged: Sequence[Batch],
    statistics: Sequence[Batch],
    teacher: nn.Module | None,
    forms: tuple[PartialForm, ...] | None,
    settings: Smoothing,
    align: bool,
    classes: bool,
    report: Report | None = None,
    state: SmoothingState | None = None,
) -> tuple[Model, SmoothReport]:
    """The same, with batches made anew for every epoch, and others to judge by and to take batch statistics from."""
    chosen = forms_to_smooth(model, forms)
    tell = report or (lambda what, share: None)
    goal = deepcopy(model) if teacher is None else teacher
    check_teacher(goal, model, judged[0])
    start = aligned(deepcopy(model)) if align else deepcopy(model)
    reader = _Judge(judged, statistics, goal, classes)
    shown = report_forms(model, chosen)
    before = {form: reader(model, form) for form in shown}
    rough = relative_roughness(start)
    result, spent = smoothed(start, epoch, chosen, settings, goal, classes, tell, state)
    result = recalibrate(result, statistics) if settings.epochs else result
    drawn = {form.of(model) for form in chosen} if settings.draws else set()
    rows = tuple(SmoothRow(str(f), before[f], reader(result, f), f in drawn) for f in shown)
    return result, SmoothReport(rows, reader.metric, spent, (rough, relative_roughness(result)))


def forms_to_smooth(model: nn.Module, forms: tuple[PartialForm, ...] | None) -> tuple[PartialForm, ...]:
    """The forms asked for, which the model must have, or the usual ones."""
    blocks_of(model)
    chosen = smoothing_forms(model) if forms is None else forms
    for form in chosen:
        check_form(form, model)
        View(model, form)
    if not chosen:
        raise ConfigError("there is no form to smooth for; give numbers of steps or sizes below the model's own")
    return chosen


def check_teacher(teacher: nn.Module, model: nn.Module, example: Batch) -> None:
    """Refuse, before anything is learnt, a teacher that does not take the data, or answers in another shape."""
    own = _shape(model, example)
    try:
        its = own if teacher is model else _shape(teacher, example)
    except AnydepthError:
        raise
    except (RuntimeError, ValueError, TypeError, IndexError) as error:
        told = str(error).split("\n")[0]
        raise ShapeError(f"the teacher does not take these inputs ({told}); take a teacher of the same task") from error
    if its != own:
        raise ShapeError(f"the teacher gives {its}, the model {own}; take a teacher of the same task")


def _shape(model: nn.Module, example: Batch) -> tuple[int, ...]:
    with evaluating(model):
        return tuple(answer(model, fitting(model, example).inputs).shape)


def report_forms(model: nn.Module, drawn: Sequence[PartialForm]) -> list[Form]:
    """The model as it is, twice its steps, half of them down to 1, smaller sizes, both, and what was drawn."""
    own = form_of(model)
    steps, sizes = usual_forms(model), smaller_sizes(model)
    both = [PartialForm(steps=f.steps, size=k) for f, k in zip(steps, sizes, strict=False)]
    asked = [PartialForm(), PartialForm(steps=2 * (own.steps or 1)), *steps, *(PartialForm(size=k) for k in sizes)]
    return list(dict.fromkeys(form.of(model) for form in (*asked, *both, *drawn)))


class _Judge:
    """Judges forms of models, each with batch statistics estimated anew."""

    def __init__(self, examples: Sequence[Batch], statistics: Sequence[Batch], teacher: nn.Module, classes: bool):
        self.examples, self.statistics, self.reader = examples, statistics, Reader(examples, classes)
        self.has_labels = classes and self.reader.has_labels
        self.metric = "accuracy" if self.has_labels else "agreement" if classes else "rmse"
        self.goal = self._outputs(teacher)

    def __call__(self, model: nn.Module, form: Form) -> float | None:
        try:
            is_own = form == form_of(model)
            outputs = self._outputs(model if is_own else recalibrate(in_form(model, form), self.statistics))
        except NumericalError:
            return None
        if outputs is None or self.goal is None or not is_finite(outputs):
            return None
        if self.has_labels:
            return self.reader.accuracy(outputs)
        if self.metric == "agreement":
            same = self.reader.same(self.goal, outputs)
            return None if same is None else same.percent
        gaps = [(one - other).square().mean().item() for one, other in zip(outputs, self.goal, strict=True)]
        return (sum(gaps) / len(gaps)) ** 0.5

    def _outputs(self, model: nn.Module) -> list[Tensor]:
        with evaluating(model):
            return [answer(model, fitting(model, example).inputs).cpu() for example in self.examples]


def relative_roughness(model: nn.Module) -> float:
    """Root of the summed squared differences between kernels of neighbouring layers, relative to the kernels."""
    gap = size = 0.0
    for block in blocks_of(model).values():
        for name, part in block.lifted.items():
            stored = block.stored(name)
            if (
                isinstance(stored, nn.Parameter)
                and len(part.shape) >= 2
                and part.function.is_linear
                and len(stored) > 1
            ):
                gap += (stored[1:] - stored[:-1]).detach().double().square().sum().item() / (len(stored) - 1)
                size += stored.detach().double().square().sum().item() / len(stored)
    return (gap / size) ** 0.5 if size else 0.0


def smooth_run(
    run: Run,
    root: Path | None,
    teacher: nn.Module | None,
    forms: tuple[PartialForm, ...] | None,
    settings: Smoothing,
    align: bool = True,
    report: Report | None = None,
    out: Path | None = None,
) -> tuple[nn.Module, SmoothReport]:
    """A run's model, smoothed on its training part, augmented as in its training, and judged on its validation part.

    A plain ResNet is made of blocks first, which is the same function. With `out`, where the result is to go, a
    stopped smoothing resumes.
    """
    model = _with_blocks(run.model())
    dataset, facts, data = run.dataset(root), run.facts, run.config.data
    held = dataset.part("validation")
    if not len(held):
        raise DataError(
            f"{run.folder} holds out no validation part to judge smoothing by; train it with data.validation"
        )
    table, augment = dataset.part("train"), Augment(data.crop, data.flip, data.hide)

    def epoch(number: int) -> Sequence[Batch]:
        draw = Draw(settings.seed, number)
        return Lazily(
            [*batches_of_epoch(draw, len(table), run.config.training.batch, table.lengths)],
            lambda indices: table.batch(indices, facts, augment if any(augment) else None, draw),
        )

    judged = list(batches_of(held, facts, run.config.evaluation.batch))
    statistics = training_batches(run, root, dataset)
    goal = model if teacher is None else _with_blocks(teacher)

    def smoothing(state: SmoothingState | None) -> tuple[nn.Module, SmoothReport]:
        is_classes = facts.task != "regress"
        return smooth_on(model, epoch, judged, statistics, goal, forms, settings, align, is_classes, report, state)

    forms_to_smooth(model, forms)
    check_teacher(goal, model, judged[0])
    if out is None:
        return smoothing(None)
    about = {"settings": asdict(settings), "align": align, "forms": None if forms is None else [*map(str, forms)]}
    about |= {"model": weights_hash(model), "teacher": weights_hash(goal), "data": table.digest()}
    with smoothing_state(out, about) as state:
        return smoothing(state)


def _with_blocks(model: nn.Module) -> nn.Module:
    """A plain ResNet as blocks, whose evaluations count; others as they are."""
    return as_blocks(model).eval() if isinstance(model, ResNet) else model


def weights_hash(model: nn.Module) -> str:
    """Of a model's weights and statistics."""
    return artifact.digest(artifact.pack_tensors(dict(model.state_dict())))


Plan = TypeVar("Plan")


class Lazily(Sequence[Batch], Generic[Plan]):
    """Batches that are made when they are asked for."""

    def __init__(self, plans: Sequence[Plan], make: Callable[[Plan], Batch]):
        self.plans, self.make = plans, make

    def __len__(self) -> int:
        return len(self.plans)

    def __getitem__(self, place: int) -> Batch:  # pyright: ignore[reportIncompatibleMethodOverride]
        return self.make(self.plans[place])


def _examples(batches: Iterable[object], what: str) -> list[Batch]:
    listed = list(batches)
    if not listed:
        raise DataError(f"there is no {what}; give smooth batches of inputs, or of inputs and labels")
    return examples_of(listed)


def _has_classes(batches: Sequence[Batch]) -> bool:
    targets = batches[0].targets
    return not targets.numel() or not targets.is_floating_point()


def _told(value: float | None) -> str:
    return "not finite" if value is None else f"{value:.2f}"
