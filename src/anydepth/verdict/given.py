"""What the user gave: a model or a field, batches of it, and what its outputs are."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from anydepth.data.table import Batch
from anydepth.depth.times import TimeLike
from anydepth.errors import ConfigError
from anydepth.nn.block import ContinuousBlock
from anydepth.nn.solver import make_solver
from anydepth.verdict.subject import Field, Model, Subject


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
    return Field(model, make_solver(**settings), head, span)


def example_of(batch: Any) -> Batch:
    if isinstance(batch, Batch):
        return batch
    if isinstance(batch, Tensor):
        return Batch((batch,), torch.empty(0))
    if isinstance(batch, (tuple, list)) and len(batch) in (1, 2):
        inputs, labels = batch if len(batch) == 2 else (batch[0], None)
        inputs = tuple(inputs) if isinstance(inputs, (tuple, list)) else (inputs,)
        labels = torch.empty(0) if labels is None else labels
        if isinstance(labels, Tensor) and all(isinstance(part, Tensor) for part in inputs):
            return Batch(inputs, labels)
    raise ConfigError(f"a batch must be inputs or a pair of inputs and labels, all tensors, got {type(batch).__name__}")


def are_classes(given: bool | None, subject: Subject, examples: list[Batch], head: Callable | None) -> bool:
    if given is not None:
        return given
    labels = examples[0].targets
    if labels.numel():
        return not labels.is_floating_point()
    if isinstance(subject, Field) and head is None:
        return False
    (outputs,) = subject.outputs(subject.solvers, examples[:1]).batches
    return outputs.dim() > 1 and outputs.shape[-1] > 1
