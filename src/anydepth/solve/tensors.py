"""A state is a tensor or a tuple of tensors: its parts, its precision, and slopes that must match it."""

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from math import isfinite
from typing import Any

import torch
from torch import Tensor

from anydepth.errors import NumericalError, ShapeError

State = tuple[Tensor, ...]


def parts_of(x: object, name: str = "x") -> State:
    """x as a tuple of floating-point tensors."""
    given = x if isinstance(x, tuple) else (x,)
    parts = tuple(part for part in given if isinstance(part, Tensor) and part.is_floating_point())
    if not parts or len(parts) < len(given):
        got = ", ".join(str(part.dtype) if isinstance(part, Tensor) else type(part).__name__ for part in given)
        raise ShapeError(f"{name} must be a floating-point tensor or a tuple of them, got {got or 'an empty tuple'}")
    return parts


def wide(parts: State) -> State:
    """The state in the dtype in which steps accumulate: at least float32."""
    return tuple(part.to(torch.promote_types(part.dtype, torch.float32)) for part in parts)


def like(x: Tensor | State, y: State) -> Tensor | State:
    """y with the structure and dtypes of x."""
    if isinstance(x, tuple):
        return tuple(part.to(given.dtype) for part, given in zip(y, x, strict=True))
    return y[0].to(x.dtype)


def keep_format(parts: State) -> State:
    """The same tensors, whose gradients will have their memory format, whatever a loss makes of it.

    Images in channels-last with gradients that are not cost a copy in every convolution.
    """
    if not torch.is_grad_enabled() or torch.compiler.is_compiling() or is_transformed():
        return parts
    for part in parts:
        if part.grad_fn is not None and part.dim() in (4, 5):
            last = torch.channels_last if part.dim() == 4 else torch.channels_last_3d
            form = next((f for f in (torch.contiguous_format, last) if part.is_contiguous(memory_format=f)), None)
            if form is not None:
                part.grad_fn.register_prehook(partial(_formatted, part.output_nr, form))
    return parts


def _formatted(place: int, form: torch.memory_format, grads: tuple[Tensor | None, ...]) -> tuple[Tensor | None, ...]:
    grad = grads[place]
    if grad is None or is_batched(grad):  # many gradients at once have no format
        return grads
    return (*grads[:place], grad.contiguous(memory_format=form), *grads[place + 1 :])


Precision = tuple[bool, torch.dtype | None]
"""Whether autocast is on, and in which dtype."""


def precision_on(device: torch.device) -> Precision:
    """The mixed precision that is at work now; a device that autocast does not know has none."""
    if not torch.amp.is_autocast_available(device.type):
        return False, None
    return torch.is_autocast_enabled(device.type), torch.get_autocast_dtype(device.type)


def in_precision(device: torch.device, precision: Precision = (False, None)) -> AbstractContextManager:
    """That precision again; by default, none but the tensors' own."""
    if not torch.amp.is_autocast_available(device.type):
        return nullcontext()
    return torch.autocast(device.type, enabled=precision[0], dtype=precision[1])


def checked_slope(slope: Any, y: State, is_tuple: bool, who: str, way_out: str) -> State:
    """A field's result as a tuple, refused when its structure or shapes differ from the state's."""
    parts = slope if isinstance(slope, tuple) else (slope,)
    if isinstance(slope, tuple) == is_tuple and len(parts) == len(y) and all(map(_fits, parts, y)):
        return parts
    got = ", ".join(f"{p.dtype} {tuple(p.shape)}" if isinstance(p, Tensor) else type(p).__name__ for p in parts)
    expected = ", ".join(f"{q.dtype} {tuple(q.shape)}" for q in y)
    raise ShapeError(f"{who} returned {got}, expected {expected}, the shape of {way_out}")


def _fits(part: object, like: Tensor) -> bool:
    return isinstance(part, Tensor) and part.shape == like.shape and part.is_floating_point()


def is_transformed() -> bool:
    """Whether a torch.func transform is at work."""
    return torch._C._functorch.peek_interpreter_stack() is not None  # pyright: ignore[reportAttributeAccessIssue]


# torch.compile asks while it traces and keeps the answer; traced itself, the answer would always be yes. This is
# torch.compiler.assume_constant_result, which would import the compiler.
is_transformed._dynamo_marked_constant = True  # pyright: ignore[reportFunctionMemberAccess]


def is_batched(grad: Tensor) -> bool:
    """Whether a gradient stands for many, which functions with an `out` do not know."""
    return torch._C._functorch.is_batchedtensor(grad) or torch._C._functorch.is_legacy_batchedtensor(grad)  # pyright: ignore[reportAttributeAccessIssue]


def gradients_of(result: Tensor, tensors: Sequence[Tensor], needs: Sequence[bool], grad: Tensor) -> list[Tensor | None]:
    """Autograd's gradients of those tensors that need one, to be differentiated again if that is asked for."""
    wanted = [tensor for tensor, is_needed in zip(tensors, needs, strict=True) if is_needed]
    again = torch.is_grad_enabled()
    found = iter(torch.autograd.grad(result, wanted, grad, allow_unused=True, create_graph=again))
    return [next(found) if is_needed else None for is_needed in needs]


def check_finite(parts: State, name: str) -> None:
    """Refuse values that are not finite. A finite sum has finite terms, and costs a fraction of looking at each."""
    if torch.compiler.is_compiling() or is_transformed():
        return
    for part in parts:
        total = part.detach().sum(dtype=torch.promote_types(part.dtype, torch.float32)).item()
        if not isfinite(total) and not bool(torch.isfinite(part).all()):
            bad = int((~torch.isfinite(part)).sum())
            raise NumericalError(
                f"{name} has {bad} non-finite of {part.numel()} values; correct the data or lower the learning rate "
                "(check_finite=False of a block lets them through)"
            )


def random_state(device: torch.device) -> Tensor:
    return torch.cuda.get_rng_state(device) if device.type == "cuda" else torch.get_rng_state()


# Off the CPU: reading a number back makes the host wait, so a flag stays on the device until somebody asks


class FiniteFlag:
    """True as long as all inputs were finite, on every device that there were inputs on; never saved or copied."""

    def __init__(self) -> None:
        self._flags: dict[torch.device, Tensor] = {}

    def note(self, parts: State) -> None:
        """Refuse parts that are not finite, now on a CPU, later elsewhere."""
        if torch.compiler.is_compiling() or is_transformed():
            return
        check_finite(tuple(part for part in parts if part.device.type == "cpu"), "x")
        for part in parts:
            if part.device.type not in ("cpu", "meta"):
                is_finite, before = part.detach().isfinite().all(), self._flags.get(part.device)
                self._flags[part.device] = is_finite if before is None else before & is_finite

    def read(self) -> bool:
        """Whether all inputs since the last question were finite; waits for their devices."""
        flags, self._flags = self._flags, {}
        return all(bool(flag) for flag in flags.values())

    def __deepcopy__(self, memo: dict) -> "FiniteFlag":
        return FiniteFlag()

    def __reduce__(self) -> tuple:
        return FiniteFlag, ()
