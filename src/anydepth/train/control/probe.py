"""What a controller sees of a training: outputs of the model as it is now, by any solver."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager

import torch
from torch import Tensor, nn

from anydepth.data.facts import Task
from anydepth.data.table import IGNORED, Batch
from anydepth.errors import NumericalError
from anydepth.measure.evaluation import evaluating, nfe_of
from anydepth.solve.solver import Solver
from anydepth.surgery.blocks import blocks_in, blocks_of

Total = Callable[[Sequence[float]], list[float]]


class Probe:
    """Runs a model in eval mode on batches, with other solvers for a moment; it changes no weight, state or gradient.

    `total` adds up numbers over all ranks, each of which has a share of the batches. Every evaluation of a unit counts.
    """

    def __init__(
        self,
        model: nn.Module,
        batches: Sequence[Batch],
        task: Task,
        precision: Callable[[], AbstractContextManager],
        total: Total = list,
    ):
        self.model, self.batches, self.total = model, batches, total
        self.task: Task = task
        self.blocks, self.precision, self.evaluations = blocks_of(model), precision, 0

    @property
    def solvers(self) -> dict[str, Solver]:
        return solvers_of(self.model)

    @property
    def has_classes(self) -> bool:
        return self.task != "regress"

    @property
    def targets(self) -> Tensor:
        """Labels of the examples (words, for tagging) that count, as `outputs` gives them."""
        return torch.cat([batch.targets[_counted(batch, self.task)] for batch in self.batches])

    def outputs(self, solvers: Mapping[str, Solver]) -> Tensor | None:
        """Outputs for all examples (words) that count, one row each; None if a number on any rank is not finite."""
        try:
            with using(self.model, solvers), evaluating(self.model), self.precision():
                found = [self._run(batch)[_counted(batch, self.task)].double() for batch in self.batches]
            outputs = torch.cat(found)
        except NumericalError:
            outputs = None
        is_bad = outputs is None or not bool(outputs.isfinite().all())
        return None if self.total([float(is_bad)])[0] else outputs

    def _run(self, batch: Batch) -> Tensor:
        try:
            return self.model(*batch.inputs)
        finally:
            self.evaluations += nfe_of(self.model)

    # Comparing outputs

    def accuracy(self, outputs: Tensor) -> float:
        """The share of examples that are right."""
        right = outputs.argmax(-1) == self.targets
        return self.share(right)

    def share(self, chosen: Tensor) -> float:
        """The share of examples that are chosen, over all ranks; or the mean of how much each of them is."""
        found, count = self.total([float(chosen.sum()), float(len(chosen))])
        return found / max(1.0, count)

    def distance(self, outputs: Tensor, others: Tensor) -> float:
        """Root mean square of the difference, relative to that of the outputs."""
        gap, size = self.total([float((others - outputs).square().sum()), float(outputs.square().sum())])
        return (gap / size) ** 0.5 if size else float(gap > 0)


def _counted(batch: Batch, task: Task) -> Tensor:
    if task == "regress":
        return torch.ones(len(batch.targets), dtype=torch.bool, device=batch.targets.device)
    return batch.targets != IGNORED


def solvers_of(model: nn.Module) -> dict[str, Solver]:
    """The solver of every block, by its name."""
    return {name: block.solver for name, block in blocks_in(model).items()}


@contextmanager
def using(model: nn.Module, solvers: Mapping[str, Solver]) -> Iterator[None]:
    """A model with other solvers, for as long as the context lasts."""
    before = solvers_of(model)
    put_solvers(model, solvers)
    try:
        yield
    finally:
        put_solvers(model, before)


def put_solvers(model: nn.Module, solvers: Mapping[str, Solver]) -> None:
    """Give every block its solver; one that has it already is left alone."""
    for name, block in blocks_of(model).items():
        if block.solver != solvers[name]:
            block.set_solver(**solvers[name].describe())
