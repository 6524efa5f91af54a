"""The vector field of a block: its unit, evaluated with the weights of given instants."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from fractions import Fraction
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves, tree_map

from anydepth.depth.times import Instant
from anydepth.errors import UnitError
from anydepth.nn.call import UnitCall, lock_of
from anydepth.nn.functions import Reading
from anydepth.nn.plan import Plan
from anydepth.nn.roles import Kind
from anydepth.nn.structure import State, checked_slope, outline

if TYPE_CHECKING:
    from anydepth.nn.block import ContinuousBlock


class Sample(NamedTuple):
    """The state that one evaluation found, and what it left."""

    instant: Instant
    before: list[Tensor]
    after: list[Tensor]


class BlockField:
    """R(x, theta(t)) for one forward pass of a block.

    Every evaluation gets its own copy of the state, so that the stages of a step do not see each
    other's updates; the copies of accepted steps are the samples for the fit.
    """

    def __init__(
        self,
        block: "ContinuousBlock",
        x: Tensor | State,
        args: tuple = (),
        kwargs: Mapping[str, Any] | None = None,
        twin: "BlockField | None" = None,
        stored: "Mapping[str, tuple[Tensor, ...]] | None" = None,
    ):
        self.block, self.args, self.kwargs, self.like = block, args, dict(kwargs or {}), outline(x)
        self.training = block.training if twin is None else twin.training
        self.lifted = dict(block.lifted) if twin is None else twin.lifted
        self.modes = [(module, module.training) for module in block.unit.modules()] if twin is None else twin.modes
        self.is_tuple = isinstance(x, tuple)
        parts = x if isinstance(x, tuple) else (x,)
        self.device, self.dtype = parts[0].device, parts[0].dtype
        autocast = torch.is_autocast_enabled(self.device.type)
        self.unit_dtypes = None if autocast else tuple(part.dtype for part in parts)
        with lock_of(block.unit):
            before = {name: block.held(name) for name in block.lifted} if twin is None else twin.stored
            self.constants = {name: block.stored(name).clone() for name in block.roles.constants}
            self.counters = {name: block.stored(name).clone() for name in block.roles.counters}
        self.stored = before | dict(stored or {})
        self.names = (*self.lifted, *self.counters, *self.constants)
        self.call = UnitCall(block.unit, self.names, block.aliases)
        updates = any(trains for _, trains in self.modes)
        is_state = {*block.state_names, *self.counters} if updates else set()
        self.copied = [i for i, name in enumerate(self.names) if name in is_state]
        first = len(self.names) - len(self.constants)
        self.watched = [*self.copied, *range(first, len(self.names))] if self.training else []
        counts = not torch.compiler.is_compiling() and not torch.is_inference_mode_enabled()
        self.counts_writes = counts and not any(part.is_inference() for part in parts)
        self.accepted: list[Sample] = []
        self.leaves_checked = False
        self.must_repeat = updates and (block.grid is None or block.gradient in ("adjoint", "kkt"))

    @property
    def scale(self) -> Fraction:
        return self.block.scale

    @property
    def breakpoints(self) -> Sequence[Fraction]:
        return sorted({b for part in self.lifted.values() for b in part.function.breakpoints})

    @contextmanager
    def as_it_was(self) -> Iterator[None]:
        """The unit's modules in the training or evaluation mode of the forward pass."""
        now = [(module, module.training) for module, _ in self.modes]
        try:
            for module, mode in self.modes:
                module.training = mode
            yield
        finally:
            for module, mode in now:
                module.training = mode

    def steps(self, plan: Plan) -> list["BlockStages"]:
        """The stages of every step of a plan, their weights read in one go."""
        rows = self._rows(plan.instants, {part.function: plan.reading(part.function) for part in self._parts()})
        count = len(plan.stages[0])
        return [
            BlockStages(self, instants, rows[n * count : (n + 1) * count]) for n, instants in enumerate(plan.stages)
        ]

    def stages(self, instants: Sequence[Instant]) -> "BlockStages":
        """The stages of one step."""
        readings = {part.function: part.function.reading(instants) for part in self._parts()}
        return BlockStages(self, instants, self._rows(instants, readings))

    def context(self) -> list[Tensor]:
        """The tensors among the extra arguments."""
        return [leaf for leaf in tree_leaves((self.args, self.kwargs)) if isinstance(leaf, Tensor)]

    def _parts(self) -> Sequence[Any]:
        return list(self.lifted.values())

    def _rows(self, instants: Sequence[Instant], readings: Mapping[Any, Reading]) -> list[list[Tensor]]:
        """For every instant the unit's tensors, in the order of `names`; equal instants share tensors."""
        columns = []
        with torch.autocast(self.device.type, enabled=False):
            for name, part in self.lifted.items():
                reading, held = readings[part.function], self.stored[name]
                held = held if part.kind is Kind.PARAMETER else tuple(tensor.clone() for tensor in held)
                distinct = [part.kind.decode(row) for row in reading.rows(*held)]
                columns.append([distinct[i] for i in reading.index])
        shared = [*self.counters.values(), *self.constants.values()]
        return [[*(column[i] for column in columns), *shared] for i in range(len(instants))]

    def commit(self) -> None:
        """Fit the samples of accepted steps back onto the block's functions; counters advance once.

        State that no evaluation changed (a frozen normalisation layer) is left as it is, to the bit.
        """
        self._check_new_buffers()
        if not self.accepted:
            return
        instants = [sample.instant for sample in self.accepted]
        with torch.no_grad(), torch.autocast(self.device.type, enabled=False):
            for place, i in enumerate(self.copied):
                before = torch.stack([sample.before[place] for sample in self.accepted])
                after = torch.stack([sample.after[place] for sample in self.accepted])
                name = self.names[i]
                if name in self.counters:
                    self.block.stored(name).copy_(after[-1])
                else:
                    reading = self._fitting(instants, self.block.lifted[name].function)
                    store_fitted(self.block, name, reading, before, after)

    def _check_new_buffers(self) -> None:
        """A buffer that was None and is set in training is state that nobody declared."""
        unit = self.block.unit
        for name, _ in unit.named_buffers():
            if not any(name in names for names in self.block.aliases.values()):
                path, _, key = name.rpartition(".")
                unit.get_submodule(path)._buffers[key] = None
                raise self._undeclared(name)

    def _undeclared(self, name: str) -> UnitError:
        return UnitError(
            f"unit {type(self.block.unit).__name__} changed its buffer {name!r} in training, and it is not known as "
            f"state; give it a value at construction and pass state=({name!r},), "
            f"or positive=({name!r},) if it must stay positive"
        )

    def _fitting(self, instants: list[Instant], function: Any) -> Reading:
        plan = self.block.plan
        if plan is not None and len(instants) == plan.evaluations:
            return plan.reading(function)
        return function.reading(instants)


def store_fitted(block: "ContinuousBlock", name: str, reading: Reading, before: Tensor, after: Tensor) -> None:
    """Store for a state what fits the samples after a pass, worked out in at least float32; nothing if none changed."""
    part, stored = block.lifted[name], block.stored(name)
    wide = torch.promote_types(stored.dtype, torch.float32)
    with torch.no_grad():
        samples = part.kind.encode(after.to(stored.dtype).to(wide))
        fitted = reading.fit(stored.to(wide), samples)
        stored.copy_(torch.where((before == after).all(), stored, fitted))


class BlockStages:
    """The stages of one step: each calls the unit with its own instant's tensors."""

    def __init__(self, field: BlockField, instants: Sequence[Instant], rows: list[list[Tensor]]):
        self.field, self.instants, self.rows = field, instants, rows
        self.samples: dict[int, Sample] = {}

    def __call__(self, stage: int, y: State) -> State:
        field, tensors = self.field, self.rows[stage]
        if field.copied:
            tensors = list(tensors)
            for i in field.copied:
                tensors[i] = tensors[i].clone()
        seed = random_state(field.device) if field.must_repeat else None
        versions = [part._version for part in y] if field.counts_writes else None
        try:
            out, after = field.call(tensors, self._arguments(stage, y), field.kwargs, field.watched)
        except torch.OutOfMemoryError:
            raise
        except (RuntimeError, ValueError, TypeError, IndexError) as error:
            raise self._explained(error, stage, y) from error
        if versions is not None and versions != [part._version for part in y]:
            raise UnitError(
                f"unit {type(field.block.unit).__name__} changes its input in place, which the solver still needs; "
                "make its first layers out of place, for example ReLU(inplace=False)"
            )
        if seed is not None:
            field.must_repeat = False
            self._check_repeatable(seed)
        if field.training:
            _check_constants(field, after[len(field.copied) :])
            if field.copied and stage not in self.samples:
                before = [self.rows[stage][i] for i in field.copied]
                self.samples[stage] = Sample(self.instants[stage], before, after)
        who = f"unit {type(field.block.unit).__name__}"
        return checked_slope(out, y, field.is_tuple, who, "x; put layers that change it between blocks, as in a Stitch")

    def tensors(self) -> list[Tensor]:
        """All weights that the stages read, and the tensors among the block's extra arguments."""
        return [*(t for row in self.rows for t in row), *self.field.context()]

    def replace(self, names: Mapping[int, Tensor]) -> tuple:
        """Read other tensors in the place of some; gives what `restore` needs."""
        field, before = self.field, (self.rows, self.field.args, self.field.kwargs)
        self.rows = [[names.get(id(t), t) for t in row] for row in self.rows]
        args, kwargs = tree_map(lambda leaf: names.get(id(leaf), leaf), (field.args, field.kwargs))
        field.args, field.kwargs = args, kwargs
        return before

    def restore(self, before: tuple) -> None:
        self.rows, self.field.args, self.field.kwargs = before

    def accept(self) -> None:
        """The step is taken: what its evaluations left of the state are samples."""
        self.field.accepted += [self.samples[stage] for stage in sorted(self.samples)]

    def _arguments(self, stage: int, y: State) -> tuple:
        field = self.field
        inputs = y if field.unit_dtypes is None else tuple(p.to(d) for p, d in zip(y, field.unit_dtypes, strict=True))
        state = inputs if field.is_tuple else inputs[0]
        if not field.block.time:
            return (state, *field.args)
        dtype = field.dtype if field.unit_dtypes else torch.promote_types(field.dtype, torch.float32)
        return (torch.tensor(float(self.instants[stage].time), dtype=dtype, device=field.device), state, *field.args)

    def _explained(self, error: Exception, stage: int, y: State) -> UnitError:
        shapes = ", ".join(str(tuple(part.shape)) for part in y)
        cause = str(error).strip().split("\n")[0]
        return UnitError(
            f"unit {type(self.field.block.unit).__name__} failed on x of shape {shapes} "
            f"at t = {float(self.instants[stage].time):g}: {cause}; "
            "check the shape of x and the arguments given to the block"
        )

    def _check_repeatable(self, seed: Tensor) -> None:
        if not torch.equal(seed, random_state(self.field.device)):
            raise UnitError(
                f"unit {type(self.field.block.unit).__name__} draws random numbers in training (dropout?), so its "
                "field differs from call to call; adaptive schemes and adjoint gradients need a fixed scheme with "
                "gradient='backprop' or 'checkpoint' instead, or the dropout outside the block"
            )


def _check_constants(field: BlockField, after: list[Tensor]) -> None:
    for (name, value), now in zip(field.constants.items(), after, strict=True):
        if now is not value or _written(value, field.block.stored(name)):
            raise field._undeclared(name)


def random_state(device: torch.device) -> Tensor:
    return torch.cuda.get_rng_state(device) if device.type == "cuda" else torch.get_rng_state()


def set_random_state(device: torch.device, state: Tensor) -> None:
    if device.type == "cuda":
        torch.cuda.set_rng_state(state, device)
    else:
        torch.set_rng_state(state)


def _written(copy: Tensor, original: Tensor) -> bool:
    """Whether a fresh copy has been written to since."""
    if copy.is_inference():
        return not torch.equal(copy.nan_to_num(), original.nan_to_num())
    return copy._version > 0
