"""What the user gave: a model or a field, and what its outputs are."""

from collections.abc import Callable
from inspect import signature
from typing import Any

from torch import nn

from anydepth.block.block import ContinuousBlock
from anydepth.data.table import Batch
from anydepth.depth.times import TimeLike
from anydepth.errors import ConfigError, NumericalError
from anydepth.solve.solver import make_solver
from anydepth.verdict.subject import Field, Model, Subject


def subject_of(
    model: object, settings: dict[str, Any], head: Callable | None, span: tuple[TimeLike, TimeLike]
) -> Subject:
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


def are_classes(given: bool | None, subject: Subject, examples: list[Batch], head: Callable | None) -> bool:
    """States and feature maps without labels are numbers. Outputs that are not finite are neither; a trial says so."""
    if given is not None:
        return given
    labels = examples[0].targets
    if labels.numel():
        return not labels.is_floating_point()
    if (isinstance(subject, Field) and head is None) or isinstance(subject.model, ContinuousBlock):
        return False
    try:
        (outputs,) = subject.outputs(subject.solvers, examples[:1]).batches
    except NumericalError:
        return False
    return outputs.dim() in (2, 3) and outputs.shape[-1] > 1
