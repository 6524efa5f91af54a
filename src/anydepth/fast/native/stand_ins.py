"""Stand-ins for tensors, which note what a unit does with them.

They are tensors without numbers, for `isinstance` and PyTorch's own C++ code. The mode `Trace` sees every function of
PyTorch that this thread calls meanwhile, and no other thread does; nothing is patched. Rules for the functions that the
kernels know are in `KNOWN`; whatever else a unit does ends the trace with the reason.
"""

from collections.abc import Callable, Sequence
from math import prod
from typing import Any, NoReturn

import torch
from torch.overrides import TorchFunctionMode

from anydepth.fast.native.codes import Op
from anydepth.fast.native.program import Expression, Node, X

KNOWN: dict[object, Callable[..., Any]] = {}
"""Rules by PyTorch's functions and methods; the modules of rules fill it."""
MAKERS: dict[object, Callable[..., Any]] = {}
"""Functions that make tensors, which get the trace as first argument."""


_CPU = torch.device("cpu")


class Unknown(Exception):  # noqa: N818
    """The unit does something that the kernels do not know."""


class Value(torch.Tensor):
    """A stand-in for a tensor: shape, dtype and device are those of the tensor; there are no numbers in it."""

    _trace: "Trace"
    _sizes: torch.Size

    def __new__(cls, trace: "Trace", shape: Sequence[int], *_args: object) -> "Value":
        with torch._C.DisableTorchFunction():
            return torch.Tensor._make_wrapper_subclass(cls, tuple(shape), dtype=trace.dtype, device=_CPU)

    def __init__(self, trace: "Trace", shape: Sequence[int]):
        self._trace, self._sizes = trace, torch.Size(shape)

    shape = property(lambda self: self._sizes)  # pyright: ignore[reportAssignmentType]
    dtype = property(lambda self: self._trace.dtype)  # pyright: ignore[reportAssignmentType]
    device = property(lambda self: _CPU)  # pyright: ignore[reportAssignmentType]
    ndim = property(lambda self: len(self._sizes))  # pyright: ignore[reportAssignmentType]
    is_cuda = is_sparse = is_nested = property(lambda self: False)  # pyright: ignore
    layout = property(lambda self: torch.strided)  # pyright: ignore[reportAssignmentType]

    def dim(self) -> int:
        return len(self._sizes)

    def size(self, axis: int | None = None) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        return self._sizes if axis is None else self._sizes[axis]

    def numel(self) -> int:
        return prod(self._sizes)

    def is_floating_point(self) -> bool:
        return True

    def __len__(self) -> int:
        return self._sizes[0]

    def __repr__(self, **_kwargs: object) -> str:
        return f"{type(self).__name__}{tuple(self._sizes)}"

    @classmethod
    def __torch_function__(cls, function: object, kinds: object, args: tuple = (), kwargs: dict | None = None) -> Any:
        return call(function, args, kwargs or {})

    @classmethod
    def __torch_dispatch__(
        cls, function: object, kinds: object, args: tuple = (), kwargs: dict | None = None
    ) -> NoReturn:
        raise Unknown(f"the unit uses {function}")

    def _refuse(self, *_args: object) -> NoReturn:
        raise Unknown("the unit looks at the values of its input, its weights or t")

    __bool__ = __float__ = __int__ = __index__ = __iter__ = __setitem__ = __contains__ = _refuse
    __eq__ = __ne__ = __lt__ = __gt__ = __le__ = __ge__ = __array__ = _refuse  # pyright: ignore
    requires_grad = grad_fn = is_leaf = property(_refuse)  # pyright: ignore
    __hash__ = object.__hash__

    def __add__(self, other: object) -> "Value":
        return KNOWN[torch.add](self, other)

    __radd__ = __add__

    def __sub__(self, other: object) -> "Value":
        return KNOWN[torch.sub](self, other)

    def __rsub__(self, other: object) -> "Value":
        return KNOWN[torch.sub](other, self)

    def __mul__(self, other: object) -> "Value":
        return KNOWN[torch.mul](self, other)

    __rmul__ = __mul__

    def __truediv__(self, other: object) -> "Value":
        return KNOWN[torch.div](self, other)

    def __neg__(self) -> "Value":
        return KNOWN[torch.neg](self)

    def __pow__(self, power: object) -> "Value":
        return KNOWN[torch.pow](self, power)

    def __matmul__(self, other: object) -> "Value":
        return KNOWN[torch.matmul](self, other)

    def __iadd__(self, other: object) -> "Value":
        return KNOWN[torch.Tensor.add_](self, other)

    def __isub__(self, other: object) -> "Value":
        return KNOWN[torch.Tensor.sub_](self, other)

    def __imul__(self, other: object) -> "Value":
        return KNOWN[torch.Tensor.mul_](self, other)

    def __getitem__(self, key: object) -> "Value":
        return KNOWN[torch.Tensor.__getitem__](self, key)

    T = mT = property(lambda self: KNOWN[torch.t](self))  # pyright: ignore


class Row(Value):
    """One register for every row: axes of the batch first, then those of the values of one row."""

    def __new__(cls, trace: "Trace", register: int, lead: Sequence[int], features: Sequence[int]) -> "Row":
        return super().__new__(cls, trace, (*lead, *features))  # pyright: ignore[reportReturnType]

    def __init__(self, trace: "Trace", register: int, lead: Sequence[int], features: Sequence[int]):
        super().__init__(trace, (*lead, *features))
        self.register, self.lead, self.features = register, tuple(lead), tuple(features)
        self.is_fresh = register != X
        """Whether it may be written over: no other stand-in has its register."""

    @property
    def width(self) -> int:
        return prod(self.features)


class Joined(Value):
    """Columns one after another, some of them the same for all rows; made into a register where it must be."""

    def __new__(cls, trace: "Trace", lead: Sequence[int], parts: Sequence["Row | Uniform"]) -> "Joined":
        return super().__new__(cls, trace, (*lead, sum(part.shape[-1] for part in parts)))  # pyright: ignore

    def __init__(self, trace: "Trace", lead: Sequence[int], parts: Sequence["Row | Uniform"]):
        super().__init__(trace, (*lead, sum(part.shape[-1] for part in parts)))
        self.lead, self.parts = tuple(lead), tuple(parts)


class Uniform(Value):
    """A tensor that is the same for all rows: weights, t, and what is made of them; a vector unless `is_matrix`."""

    def __new__(cls, trace: "Trace", expression: Expression, shape: Sequence[int], is_whole: bool = False) -> "Uniform":
        return super().__new__(cls, trace, shape)  # pyright: ignore[reportReturnType]

    def __init__(self, trace: "Trace", expression: Expression, shape: Sequence[int], is_whole: bool = False):
        super().__init__(trace, shape)
        self.expression, self.is_whole = expression, is_whole
        """Whether the shape is the tensor's own, as a parameter's; otherwise all axes but the last repeat it."""


class Filled(Value):
    """A tensor of one number."""

    def __new__(cls, trace: "Trace", number: float, shape: Sequence[int]) -> "Filled":
        return super().__new__(cls, trace, shape)  # pyright: ignore[reportReturnType]

    def __init__(self, trace: "Trace", number: float, shape: Sequence[int]):
        super().__init__(trace, shape)
        self.number = number


def _mode() -> tuple[bool, bool]:
    return torch.is_grad_enabled(), torch.is_autocast_enabled("cpu")


class Trace(TorchFunctionMode):
    """One call of a unit: the operations so far."""

    def __init__(self, dtype: torch.dtype):
        super().__init__()
        self.dtype = dtype
        self.nodes: list[Node] = []
        self.widths: list[int] = []
        self.slots: dict[Expression, int] = {}
        self.shapes: list[tuple[int, ...]] = []
        self._mode = _mode()

    def __torch_function__(self, function: object, kinds: object, args: tuple = (), kwargs: dict | None = None) -> Any:
        return call(function, args, kwargs or {}, self)

    def check_mode(self) -> None:
        if _mode() != self._mode:
            raise Unknown("the unit switches gradients or mixed precision on or off")

    def register(self, width: int) -> int:
        self.widths.append(width)
        return len(self.widths) - 1

    def slot(self, expression: Expression, shape: Sequence[int]) -> int:
        if expression not in self.slots:
            self.slots[expression] = len(self.slots)
            self.shapes.append(tuple(shape))
        return self.slots[expression]

    def row(self, op: Op, x: Row, features: Sequence[int] | None = None, **more: Any) -> Row:
        """The result of an operation on x."""
        self.check_mode()
        features = x.features if features is None else features
        to = self.register(prod(features))
        self.nodes.append(Node(op, to, x.register, **more))
        return Row(self, to, x.lead, features)


def call(function: object, args: tuple, kwargs: dict[str, object], trace: Trace | None = None) -> Any:
    known = KNOWN.get(function)
    if known is None:
        maker = MAKERS.get(function)
        if maker is not None and trace is not None:
            return maker(trace, *args, **kwargs)
        raise Unknown(f"the unit uses {getattr(function, '__name__', function)}")
    try:
        return known(*args, **kwargs)
    except (TypeError, ValueError, IndexError, AttributeError) as error:
        raise Unknown(
            f"the unit uses {getattr(function, '__name__', function)} in an unsupported way: {error}"
        ) from None
