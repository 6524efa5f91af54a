"""Forms of one model measured beside it: outputs on data if there is any, and what a pass costs."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import cached_property
from math import isfinite
from statistics import median

import torch
from torch import Tensor, nn
from torch.fx import GraphModule

from anydepth.data.table import Batch
from anydepth.errors import ConfigError, NumericalError
from anydepth.measure.answers import answer
from anydepth.measure.cost import flops, interleaved, peak_bytes, synchronised, weight_bytes
from anydepth.measure.distance import relative_distance
from anydepth.measure.evaluation import evaluating, fitting
from anydepth.measure.paired import Answers, Paired, errors_of
from anydepth.measure.predictions import Reader, is_finite
from anydepth.surgery.blocks import blocks_of
from anydepth.surgery.resize import set_solver

Plain = Callable[[nn.Module, tuple[Tensor, ...]], tuple[nn.Module, bool]]
"""From a model and inputs, the network that is timed in its place, and whether it is a frozen one."""
SOURCE_ROUNDS = 3
"""How many times longer the source is timed alone, since every latency is told in its terms."""


@dataclass(frozen=True)
class Cost:
    """Of one pass over the timed inputs."""

    flops: int
    memory_bytes: int
    latency_ms: float
    ratio: float
    """To the source's latency."""
    is_frozen: bool


class FormMeter:
    """Measures models beside the source.

    Args:
        model: the source, in eval mode.
        inputs: one batch that is timed, counted and weighed.
        examples: data to judge predictions by; None: no data, so that errors are estimated on `inputs`.
        classes: whether outputs are scores of classes.
        rounds: how often each form is timed, alternating with the source.
        precision: makes what passes are run in, such as autocast.
        plain: the network that is timed in the place of a model, and whether it is a frozen one.
    """

    def __init__(
        self,
        model: nn.Module,
        inputs: tuple[Tensor, ...],
        examples: Sequence[Batch] | None = None,
        classes: bool = True,
        rounds: int = 11,
        precision: Callable[[], AbstractContextManager] = nullcontext,
        plain: Plain = lambda model, inputs: (model, False),
    ):
        self.model, self.rounds, self.precision, self.plain = model, rounds, precision, plain
        self.examples, self.classes = examples, classes
        self.inputs = fitting(model, Batch(inputs, torch.empty(0))).inputs
        self.reader = None if examples is None else Reader(examples, classes)
        self._costs: dict[str, Cost] = {}
        """Of frozen networks, by their graphs."""

    @property
    def metric(self) -> str:
        """What forms are ranked by."""
        if self.reader is None:
            return "error"
        if not self.reader.has_labels:
            return "agreement" if self.classes else "error"
        return "accuracy" if self.classes else "rmse"

    @cached_property
    def source_outputs(self) -> list[Tensor]:
        found = self.outputs(self.model)
        if found is None:
            raise NumericalError("the model's outputs are not finite; run it with a finer or a more stable solver")
        return found

    @cached_property
    def _plain(self) -> tuple[nn.Module, bool]:
        """The source as it is timed."""
        return self.plain(self.model, self.inputs)

    def outputs(self, model: nn.Module) -> list[Tensor] | None:
        """On all examples, or on the timed inputs if there are none; None where they are not finite."""
        given = [Batch(self.inputs, torch.empty(0))] if self.examples is None else self.examples
        try:
            with self._passes(model):
                found = [answer(model, fitting(model, example).inputs).cpu() for example in given]
        except NumericalError:
            return None
        return found if is_finite(found) else None

    def value(self, outputs: list[Tensor]) -> float:
        """The metric, of outputs on the examples; an error without data is that of the outputs alone."""
        if self.metric == "accuracy":
            return _known(self.reader.accuracy(outputs) if self.reader else None)
        if self.metric == "agreement":
            return _known(self.agreement(outputs))
        if self.metric == "rmse":
            assert self.examples is not None
            return _rmse(outputs, [example.targets for example in self.examples])
        return 100 * relative_distance(self.source_outputs, outputs)

    def paired(self, outputs: list[Tensor]) -> Paired | None:
        """What the examples tell of the drop from the source; None without data, and of outputs without truth."""
        if self.examples is None or self.reader is None or self.metric == "error":
            return None
        if self.metric == "rmse":
            targets = [example.targets for example in self.examples]
            return errors_of(*(_squares(each, targets) for each in (self.source_outputs, outputs)))
        changed = self.reader.changed(self.source_outputs, outputs)
        if changed is None:
            return None
        voices = self.reader.voices(outputs)
        lost, gained = (voices * share.successes / share.count for share in changed)
        return Answers(voices, lost, gained)

    def agreement(self, outputs: list[Tensor]) -> float | None:
        """Per cent of predictions that are the source's; None without data or classes."""
        same = None if self.reader is None else self.reader.same(self.source_outputs, outputs)
        return None if same is None else same.percent

    def solver_error(self, model: nn.Module) -> float | None:
        """Relative distance of outputs on the timed inputs from those with the source's solver, which it then has."""
        own = {name: block.solver.describe() for name, block in blocks_of(self.model).items()}
        try:
            coarse = self._once(model)
            for name, settings in own.items():
                set_solver(model, **settings, where=name)
            found = relative_distance([self._once(model)], [coarse])
        except NumericalError:
            return None
        return found if isfinite(found) else None

    def cost(self, model: nn.Module) -> Cost:
        """Of the plain network where there is one, else of the model itself; timed in turns with the source.

        Plain networks that differ in nothing but the numbers in their tensors cost the same: they are timed once.
        """
        form, is_frozen = self._plain if model is self.model else self.plain(model, self.inputs)
        graph = graph_of(form) if is_frozen else None
        if graph is None:
            return self._measured(form, is_frozen)
        if graph not in self._costs:
            self._costs[graph] = self._measured(form, is_frozen)
        return self._costs[graph]

    def _measured(self, form: nn.Module, is_frozen: bool) -> Cost:
        source = self._plain[0]
        runs = {"source": source, "form": form} if form is not source else {"form": form}
        with self._passes(*runs.values()):
            device = self.inputs[0].device
            calls = {name: synchronised(_call(net, self.inputs), device) for name, net in runs.items()}
            seconds = interleaved(calls, self.rounds if len(runs) > 1 else SOURCE_ROUNDS * self.rounds)
            operations, peak = flops(calls["form"]), peak_bytes(calls["form"])
        size = sum(part.numel() * part.element_size() for part in self.inputs)
        pairs = zip(seconds["form"], seconds.get("source", seconds["form"]), strict=True)
        return Cost(
            operations // len(self.inputs[0]),
            weight_bytes(form) + size + peak,
            1e3 * median(seconds["form"]),
            median(mine / its for mine, its in pairs),
            is_frozen,
        )

    def _once(self, model: nn.Module) -> Tensor:
        with self._passes(model):
            return answer(model, self.inputs).cpu()

    @contextmanager
    def _passes(self, *models: nn.Module) -> Iterator[None]:
        """Eval mode, no gradients, and the precision that the model was trained in."""
        with evaluating(nn.ModuleList(models)), self.precision():
            yield


def graph_of(form: nn.Module) -> str | None:
    """All of a frozen network but the numbers in its tensors; None for other modules."""
    if not isinstance(form, GraphModule):
        return None
    tensors = form.state_dict(keep_vars=True).items()
    layout = [(name, tuple(x.shape), x.stride(), str(x.dtype), str(x.device)) for name, x in tensors]
    modules = [(name, repr(module)) for name, module in form.named_children()]
    return repr((form.code, layout, modules))


def _call(model: nn.Module, inputs: tuple[Tensor, ...]) -> Callable[[], Tensor]:
    return lambda: answer(model, inputs)


def _rmse(outputs: Sequence[Tensor], targets: Sequence[Tensor]) -> float:
    return (sum(_squares(outputs, targets)) / sum(target.numel() for target in targets)) ** 0.5


def _squares(outputs: Sequence[Tensor], targets: Sequence[Tensor]) -> list[float]:
    """Squared errors, summed for every example."""
    pairs = zip(outputs, targets, strict=True)
    found = [(out.double() - target.double().cpu()).square() for out, target in pairs]
    return torch.cat([part.reshape(len(part), -1).sum(-1) for part in found]).tolist()


def _known(value: float | None) -> float:
    if value is None:
        raise ConfigError("no example has a label that counts (all are -100, ignored); give data with labels")
    return value
