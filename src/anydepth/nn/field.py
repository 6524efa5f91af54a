"""The vector field of a block: its unit, evaluated with the weights of each instant of a plan."""

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.func import functional_call

from anydepth.errors import ShapeError, UnitError
from anydepth.nn.plan import Plan, State
from anydepth.nn.roles import Kind

if TYPE_CHECKING:
    from anydepth.nn.block import ContinuousBlock


class BlockField:
    """R(x, theta(t_i)) for evaluation i of a plan; remembers the state that each evaluation left.

    Every evaluation gets its own copy of the state, so that the stages of a step do not see each
    other's updates; `updates` then holds one sample per evaluation for the fit.
    """

    def __init__(self, block: "ContinuousBlock", plan: Plan, x: Tensor | State, args: tuple, kwargs: dict[str, Any]):
        self.block, self.plan, self.args, self.kwargs = block, plan, args, kwargs
        self.is_tuple = isinstance(x, tuple)
        parts = x if isinstance(x, tuple) else (x,)
        device = parts[0].device
        self.unit_dtypes = None if torch.is_autocast_enabled(device.type) else tuple(part.dtype for part in parts)
        with torch.autocast(device.type, enabled=False):
            self.rows = self._rows()
        self.constants = self._constants()
        self.counters = {name: block.stored(name) for name in block.roles.counters}
        self.updates: dict[str, list[Tensor]] = {name: [] for name in (*block.state_names, *self.counters)}
        self.times = self._times(parts[0]) if block.time else None

    def _rows(self) -> dict[str, list[Tensor]]:
        """theta of every lifted tensor, for every evaluation; equal instants share one tensor."""
        rows = {}
        for name, part in self.block.lifted.items():
            reading = self.plan.reading(part.function)
            stored = self.block.stored(name)
            if part.kind is not Kind.PARAMETER:
                stored = stored.clone()
            distinct = [part.kind.decode(row) for row in reading.rows(stored)]
            rows[name] = [distinct[i] for i in reading.index]
        return rows

    def _constants(self) -> dict[str, Tensor]:
        """Shared buffers: copies in training, so that a unit that changes one cannot harm the block."""
        constants = {name: self.block.stored(name) for name in self.block.roles.constants}
        if self.block.training:
            constants = {name: value.clone() for name, value in constants.items()}
        return constants

    def _times(self, x: Tensor) -> tuple[Tensor, ...]:
        times = [float(instant.time) for instant in self.plan.instants]
        return torch.tensor(times, dtype=torch.promote_types(x.dtype, torch.float32), device=x.device).unbind()

    def __call__(self, evaluation: int, y: State) -> State:
        tensors = {name: rows[evaluation] for name, rows in self.rows.items()}
        tensors |= self.counters | self.constants
        if self.block.training:
            tensors |= {name: tensors[name].clone() for name in self.updates}
        out = self._call_unit(evaluation, y, tensors)
        if self.block.training:
            self._check_constants(tensors)
            for name, samples in self.updates.items():
                samples.append(tensors[name])
        return self._checked(out, y)

    def _call_unit(self, evaluation: int, y: State, tensors: dict[str, Tensor]) -> Tensor | State:
        inputs = y if self.unit_dtypes is None else tuple(p.to(d) for p, d in zip(y, self.unit_dtypes, strict=True))
        state = inputs if self.is_tuple else inputs[0]
        args = (state, *self.args) if self.times is None else (self.times[evaluation], state, *self.args)
        try:
            return functional_call(self.block.unit, tensors, args, self.kwargs)
        except torch.OutOfMemoryError:
            raise
        except (RuntimeError, ValueError, TypeError, IndexError) as error:
            shapes = ", ".join(str(tuple(part.shape)) for part in y)
            time = self.plan.instants[evaluation].time
            cause = str(error).strip().split("\n")[0]
            raise UnitError(
                f"unit {type(self.block.unit).__name__} failed on x of shape {shapes} at t = {time}: {cause}; "
                "check the shape of x and the arguments given to the block"
            ) from error

    def _checked(self, out: Tensor | State, y: State) -> State:
        """The unit's result as a tuple, refused when its structure or shapes differ from x."""
        parts = out if isinstance(out, tuple) else (out,)
        ok = isinstance(out, tuple) == self.is_tuple and len(parts) == len(y)
        if not ok or any(not isinstance(p, Tensor) or p.shape != q.shape for p, q in zip(parts, y, strict=True)):
            got = ", ".join(str(tuple(p.shape)) if isinstance(p, Tensor) else type(p).__name__ for p in parts)
            expected = ", ".join(str(tuple(q.shape)) for q in y)
            raise ShapeError(
                f"unit {type(self.block.unit).__name__} returned {got}, expected {expected}, the shape of x; "
                "put layers that change the shape between blocks, for example in a Stitch"
            )
        return parts

    def _check_constants(self, tensors: dict[str, Tensor]) -> None:
        for name, value in self.constants.items():
            if tensors[name] is not value or _written(value, self.block.stored(name)):
                raise UnitError(
                    f"unit {type(self.block.unit).__name__} changed its buffer {name!r} in training, and it is not "
                    f"known as state; pass state=({name!r},), or positive=({name!r},) if it must stay positive"
                )

    def commit(self) -> None:
        """Fit the samples of state back onto the block's functions; counters advance once.

        State that no evaluation changed (a frozen normalisation layer) is left as it is, to the bit.
        """
        with torch.no_grad():
            for name in self.block.state_names:
                part, stored = self.block.lifted[name], self.block.stored(name)
                samples = torch.stack(self.updates[name])
                untouched = (samples == torch.stack(self.rows[name])).all()
                fitted = self.plan.reading(part.function).fit(stored, part.kind.encode(samples.to(stored.dtype)))
                stored.copy_(torch.where(untouched, stored, fitted))
            for name, counter in self.counters.items():
                counter.copy_(self.updates[name][-1])


def _written(copy: Tensor, original: Tensor) -> bool:
    """Whether a fresh copy has been written to since."""
    return not torch.equal(copy, original) if copy.is_inference() else copy._version > 0
