"""What the user gave: a model or a field, batches of it, and what its outputs are."""

from collections.abc import Callable, Iterable, Mapping
from inspect import signature
from typing import Any

import torch
from torch import Tensor, nn

from anydepth.block.block import ContinuousBlock
from anydepth.data.table import Batch
from anydepth.depth.times import TimeLike
from anydepth.errors import ConfigError, DataError, NumericalError
from anydepth.measure.answers import Keywords
from anydepth.solve.solver import make_solver
from anydepth.verdict.subject import Field, Model, Subject

LABELS = ("labels", "label", "targets")
"""What a batch by keyword calls what a model should say."""


def subject_of(model: Any, settings: dict[str, Any], head: Callable | None, span: tuple[TimeLike, TimeLike]) -> Subject:
    is_module = isinstance(model, nn.Module)
    if is_module and any(isinstance(module, ContinuousBlock) for module in model.modules()):
        given = [*settings, *(["head"] if head is not None else []), *(["span"] if tuple(span) != (0, 1) else [])]
        if given:
            raise ConfigError(
                f"the model's blocks have their own solvers, got {', '.join(given)}; use set_solver, or leave them out"
            )
        return Model(model)
    if not callable(model):
        raise ConfigError(
            f"expected an nn.Module with continuous blocks, or a field f(t, y), got {type(model).__name__}"
        )
    if "scheme" not in settings:
        name = getattr(model, "__name__", type(model).__name__)
        raise ConfigError(
            f"{name} has no ContinuousBlock; to judge a vector field f(t, y), give the solver it was trained with: "
            "check(field, [y0], scheme='euler', steps=8), or an adaptive scheme with rtol and atol"
        )
    _check_call(model)
    return Field(model, make_solver(**settings), head, span)


def _check_call(field: Callable) -> None:
    """Refuse what cannot be called with (t, y), where its signature tells."""
    try:
        found = signature(field.forward if isinstance(field, nn.Module) else field)
    except (TypeError, ValueError):
        return
    try:
        found.bind(None, None)
    except TypeError:
        name = getattr(field, "__name__", type(field).__name__)
        raise ConfigError(
            f"a field is called with (t, y), got {name} called with {found}; "
            "if it does not depend on t, give lambda t, y: net(y), with net in eval mode"
        ) from None


def examples_of(batches: Iterable[Any]) -> list[Batch]:
    """All batches that hold anything."""
    if isinstance(batches, (tuple, list)) and _is_pair(batches):
        raise ConfigError(
            "batches must be a list of batches, got a pair of tensors; "
            "if they are inputs and labels, wrap the pair: [(x, labels)]; two batches of inputs: [x1, x2]"
        )
    given = [example_of(batch) for batch in ([batches] if isinstance(batches, (Tensor, Mapping)) else batches)]
    examples = [example for example in given if any(part.numel() for part in example.inputs)]
    if not examples:
        raise DataError(f"no batches {'but empty ones ' if given else ''}were given; a verdict needs some inputs")
    return examples


def _is_pair(given: tuple | list) -> bool:
    """Whether two tensors look like inputs and labels: a tuple, or of different kinds."""
    if len(given) != 2 or not all(isinstance(part, Tensor) for part in given):
        return False
    a, b = given
    return isinstance(given, tuple) or a.dim() != b.dim() or a.is_floating_point() != b.is_floating_point()


def example_of(batch: Any) -> Batch:
    if isinstance(batch, Batch):
        return batch
    if isinstance(batch, Tensor):
        return Batch((batch,), torch.empty(0))
    if isinstance(batch, Mapping):
        return _by_keyword(batch)
    if isinstance(batch, (tuple, list)) and len(batch) in (1, 2):
        inputs, labels = batch if len(batch) == 2 else (batch[0], None)
        inputs = tuple(inputs) if isinstance(inputs, (tuple, list)) else (inputs,)
        labels = torch.empty(0) if labels is None else labels
        if isinstance(labels, Tensor) and all(isinstance(part, Tensor) for part in inputs):
            return Batch(inputs, labels)
    raise ConfigError(
        "a batch must be inputs, a pair of inputs and labels, or a dict of them by keyword, all tensors, "
        f"got {type(batch).__name__}"
    )


def _by_keyword(batch: Mapping[str, Any]) -> Batch:
    """Inputs by keyword, and labels if there are any."""
    given = {name: value for name, value in batch.items() if value is not None}
    wrong = next((name for name, value in given.items() if not isinstance(value, Tensor)), None)
    if wrong is not None:
        got = type(given[wrong]).__name__
        raise ConfigError(f"a batch must hold tensors, got {got} for {wrong!r}; leave it out or make it a tensor")
    labels = next((given.pop(name) for name in LABELS if name in given), torch.empty(0))
    if not given:
        raise ConfigError("a batch by keyword holds labels and no inputs")
    return Batch(Keywords.of(given), labels)


def are_classes(given: bool | None, subject: Subject, examples: list[Batch], head: Callable | None) -> bool:
    """Outputs that are not finite are neither; the trial of them says so."""
    if given is not None:
        return given
    labels = examples[0].targets
    if labels.numel():
        return not labels.is_floating_point()
    if isinstance(subject, Field) and head is None:
        return False
    try:
        (outputs,) = subject.outputs(subject.solvers, examples[:1]).batches
    except NumericalError:
        return False
    return outputs.dim() > 1 and outputs.shape[-1] > 1
