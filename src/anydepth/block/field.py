"""The vector field of a pass: the unit, evaluated with the weights of given instants."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import NamedTuple

import torch
from torch import Tensor
from torch.utils._pytree import tree_map

from anydepth.block.branch import warn_of_skip
from anydepth.block.passes import Kind, Pass, Samples
from anydepth.depth.times import Instant
from anydepth.errors import UnitError
from anydepth.executor.executor import Executor, Traced, UnitCall
from anydepth.solve.plan import Plan
from anydepth.solve.tensors import Precision, State, checked_slope, in_precision, random_state
from anydepth.weights.protocol import Reading


class Sample(NamedTuple):
    """The state that one evaluation found, and what it left."""

    instant: Instant
    before: list[Tensor]
    after: list[Tensor]


class Readings:
    """How every lifted tensor is read at given instants."""

    def __init__(self, each: Sequence[Reading], count: int):
        self.each = each
        picks = [tuple(reading.index[i] for reading in each) for i in range(count)]
        places = {row: place for place, row in enumerate(dict.fromkeys(picks))}
        self.rows = list(places)
        """What distinct instants read: a place among the rows of every tensor."""
        self.index = [places[row] for row in picks]


class UnitField:
    """R(x, theta(t)) for one pass.

    Every evaluation gets its own copy of the state, so that the stages of a step do not see each
    other's updates; the copies of accepted steps are the samples for the fit.
    """

    def __init__(self, given: Pass, twin: "UnitField | None" = None):
        self.given, self.image = given, given.image
        self.shared = {name: tensor.clone() for name, tensor in given.shared.items()} if twin is None else twin.shared
        self.names = (*given.lifted, *given.shared)
        self.call = self._make_call()
        self.args, self.kwargs = given.args, dict(given.kwargs)
        self.dtypes = None if given.precision[0] else given.dtypes
        """What the unit gets, whatever the state has become; under autocast, the state as it is."""
        updates = any(m.training for m in given.unit.modules()) if self.image is None else self.image.is_training
        self.copied = self._state_places() if updates else []
        first = len(self.names) - len(given.roles.constants)
        self.watched = [*self.copied, *range(first, len(self.names))] if given.is_training else []
        counts = not torch.compiler.is_compiling() and not torch.is_inference_mode_enabled()
        self.counts_writes = counts and not given.is_inference
        self.looks_for_skip = self.image is not None and "skip" not in self.image.looked_at
        self.accepted: list[Sample] = []
        self.checked: set[str] = set() if twin is None else twin.checked
        """What needs to be looked at once in a pass, and has been."""
        is_late = given.plan is None or given.gradient in ("adjoint", "kkt")
        self.must_repeat = twin is None and updates and is_late

    def _state_places(self) -> list[int]:
        """Where among the names the tensors are that the unit updates itself."""
        lifted, counters = self.given.lifted, self.given.roles.counters
        is_state = {name for name, part in lifted.items() if part.kind is not Kind.PARAMETER}
        return [i for i, name in enumerate(self.names) if name in is_state or name in counters]

    def _make_call(self) -> UnitCall:
        if self.image is None:
            return Traced(self.given.unit, self.names)
        return Executor(self.image, self.names, self.given.aliases)

    @property
    def name(self) -> str:
        return self.given.unit_name

    @property
    def device(self) -> torch.device:
        return self.given.device

    @property
    def precision(self) -> Precision:
        return self.given.precision

    @property
    def scale(self) -> Fraction:
        return self.given.scale

    @property
    def breakpoints(self) -> Sequence[Fraction]:
        return sorted({b for part in self.given.lifted.values() for b in part.function.breakpoints})

    def again(self, names: Mapping[int, Tensor]) -> "UnitField":
        """The same field as it was at the forward pass, reading other extra arguments in the place of some."""
        swap = lambda leaf: names.get(id(leaf), leaf)  # noqa: E731
        args, kwargs = tree_map(swap, (self.given.args, self.given.kwargs))
        return UnitField(replace(self.given, args=args, kwargs=kwargs), self)

    def close(self) -> None:
        """The pass is over: nobody may call the unit's image any more."""
        self.call.close()

    def steps(self, plan: Plan) -> list["UnitStages"]:
        """The stages of every step of a plan, their weights read in one go."""
        rows, times = self.rows(plan), self.times(plan.instants)
        count = len(plan.stages[0])
        cuts = [slice(n * count, (n + 1) * count) for n in range(len(plan.stages))]
        return [UnitStages(self, at, rows[cut], times[cut]) for at, cut in zip(plan.stages, cuts, strict=True)]

    def rows(self, plan: Plan) -> list[list[Tensor]]:
        """For every instant of a plan the unit's tensors; instants that read the same share a row."""
        return self._rows(self._readings(plan))

    def times(self, instants: Sequence[Instant]) -> Sequence[Tensor]:
        """What a unit that takes the time is given at each instant; new tensors for every pass, as it may write."""
        if not self.given.has_time:
            return ()
        dtype = self.given.dtype if self.dtypes else torch.promote_types(self.given.dtype, torch.float32)
        return torch.tensor([float(time) for time, _ in instants], dtype=dtype, device=self.device).unbind()

    def _readings(self, plan: Plan) -> "Readings":
        """How every lifted tensor is read at the instants of a plan; looked up once for a form of the block."""
        lifted, kept = self.given.lifted, plan.kept.get("readings")
        if kept is None or kept[0] is not lifted:
            found = Readings([plan.reading(part.function) for part in lifted.values()], len(plan.instants))
            kept = plan.kept["readings"] = (lifted, found)
        return kept[1]

    def stages(self, instants: Sequence[Instant]) -> "UnitStages":
        """The stages of one step."""
        functions = [part.function for part in self.given.lifted.values()]
        known = {function: function.reading(instants) for function in dict.fromkeys(functions)}
        readings = Readings([known[function] for function in functions], len(instants))
        return UnitStages(self, instants, self._rows(readings), self.times(instants))

    def _rows(self, readings: "Readings") -> list[list[Tensor]]:
        """For every instant the unit's tensors, in the order of `names`; instants that read the same share a row."""
        distinct: list[Sequence[Tensor]] = []
        with in_precision(self.given.device):
            for (name, part), reading in zip(self.given.lifted.items(), readings.each, strict=True):
                held = self.given.held[name]
                if part.kind is Kind.PARAMETER:
                    distinct.append(reading.rows(*held))
                else:
                    rows = reading.rows(*map(_copy, held))
                    distinct.append([part.kind.decode(row) for row in rows])
        shared = list(self.shared.values())
        made = [[*[d[i] for d, i in zip(distinct, row, strict=True)], *shared] for row in readings.rows]
        return [made[i] for i in readings.index]

    def samples(self) -> tuple[dict[str, Samples], dict[str, Tensor]]:
        """What accepted steps left of the state and of the counters."""
        if isinstance(self.call, Executor) and self.given.is_training:
            for name in self.call.new_buffers():
                raise self.undeclared(name)
        instants, state, counters = [sample.instant for sample in self.accepted], {}, {}
        for place, i in enumerate(self.copied if self.accepted else ()):
            before = [sample.before[place] for sample in self.accepted]
            after = [sample.after[place] for sample in self.accepted]
            if self.names[i] in self.given.roles.counters:
                counters[self.names[i]] = after[-1]
            else:
                state[self.names[i]] = Samples(instants, torch.stack(before), torch.stack(after))
        return state, counters

    def undeclared(self, name: str) -> UnitError:
        return UnitError(
            f"unit {self.given.unit_name} changes its buffer {name!r} in training, and it is not known as "
            f"state; give it a value at construction and pass state=({name!r},), "
            f"or positive=({name!r},) if it must stay positive"
        )


class UnitStages:
    """The stages of one step: each calls the unit with its own instant's tensors."""

    def __init__(
        self, field: UnitField, instants: Sequence[Instant], rows: list[list[Tensor]], times: Sequence[Tensor]
    ):
        self.field, self.instants, self.rows, self.times = field, instants, rows, times
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
        except (torch.OutOfMemoryError, UnitError):
            raise
        except (RuntimeError, ValueError, TypeError, IndexError) as error:
            raise self._explained(error, stage, y) from error
        if versions is not None and versions != [part._version for part in y]:
            raise UnitError(
                f"unit {field.name} changes its input in place, which the solver still needs; "
                "make its first layers out of place, for example ReLU(inplace=False)"
            )
        if seed is not None:
            field.must_repeat = False
            self._check_repeatable(seed)
        if field.watched:
            self._note(stage, after)
        slope = self._checked(out, y)
        if field.looks_for_skip:
            self._look_for_skip(y, slope)
        return slope

    def _note(self, stage: int, after: list[Tensor]) -> None:
        """In training: refuse constants that were changed, and keep what became of the state."""
        field = self.field
        _check_constants(field, after[len(field.copied) :])
        if field.copied and stage not in self.samples:
            before = [self.rows[stage][i] for i in field.copied]
            self.samples[stage] = Sample(self.instants[stage], before, after)

    def _checked(self, out: object, y: State) -> State:
        """The unit's result as a slope of y; the usual case is found out first, as it is asked at every evaluation."""
        is_tuple = self.field.given.is_tuple
        if type(out) is Tensor and not is_tuple and out.dtype is y[0].dtype and out.shape == y[0].shape:
            return (out,)
        way_out = "x; put layers that change it between blocks, as in a Stitch"
        return checked_slope(out, y, is_tuple, f"unit {self.field.name}", way_out)

    def _look_for_skip(self, y: State, slope: State) -> None:
        """Once for an image of the unit, at the first evaluation that has a graph to look at."""
        field = self.field
        if field.image is not None and any(part.grad_fn is not None for part in slope):
            field.looks_for_skip = False
            field.image.looked_at.add("skip")
            warn_of_skip(field.given.unit, y, slope)

    def tensors(self) -> list[Tensor]:
        """All weights that the stages read, and the tensors among the block's extra arguments."""
        return [*(t for row in self.rows for t in row), *self.field.given.context()]

    def on(self, field: UnitField, names: Mapping[int, Tensor]) -> "UnitStages":
        """The same stages of a twin of the field, reading other tensors in the place of some."""
        rows = [[names.get(id(t), t) for t in row] for row in self.rows]
        return UnitStages(field, self.instants, rows, field.times(self.instants))

    def accept(self) -> None:
        """The step is taken: what its evaluations left of the state are samples."""
        if self.samples:
            self.field.accepted += [self.samples[stage] for stage in sorted(self.samples)]

    def _arguments(self, stage: int, y: State) -> tuple:
        field, given = self.field, self.field.given
        if field.dtypes is not None:
            y = tuple([p if p.dtype is d else p.to(d) for p, d in zip(y, field.dtypes, strict=True)])
        state = y if given.is_tuple else y[0]
        return (self.times[stage], state, *field.args) if given.has_time else (state, *field.args)

    def _explained(self, error: Exception, stage: int, y: State) -> UnitError:
        shapes = ", ".join(str(tuple(part.shape)) for part in y)
        cause = str(error).strip().split("\n")[0]
        return UnitError(
            f"unit {self.field.name} failed on x of shape {shapes} "
            f"at t = {float(self.instants[stage].time):g}: {cause}; "
            "check the shape of x and the arguments given to the block"
        )

    def _check_repeatable(self, seed: Tensor) -> None:
        if not torch.equal(seed, random_state(self.field.device)):
            raise UnitError(
                f"unit {self.field.name} draws random numbers in training (dropout?), so its "
                "field differs from call to call; adaptive schemes and adjoint gradients need a fixed scheme with "
                "gradient='backprop' or 'checkpoint' instead, or the dropout outside the block"
            )


def _copy(tensor: Tensor) -> Tensor:
    """A copy of state. Inductor leaves out a plain one, and a gradient then writes over the block's own state."""
    if torch.compiler.is_compiling() and not torch.compiler.is_exporting():
        return tensor.index_select(0, torch.arange(len(tensor), device=tensor.device))
    return tensor.clone()


def _check_constants(field: UnitField, after: list[Tensor]) -> None:
    for name, now in zip(field.given.roles.constants, after, strict=True):
        if now is not field.shared[name] or _written(now, field.given.shared[name]):
            raise field.undeclared(name)


def _written(copy: Tensor, original: Tensor) -> bool:
    """Whether a fresh copy has been written to since."""
    if copy.is_inference():
        return not torch.equal(copy.nan_to_num(), original.nan_to_num())
    return copy._version > 0
