"""Rules for activations of stand-ins."""

from collections.abc import Callable

import torch
from torch.nn import functional

from anydepth.fast.native.codes import Op
from anydepth.fast.native.stand_ins import KNOWN, Row, Uniform, Unknown, Value
from anydepth.fast.native.sums import in_place, multiply, replaced, settled, uniform


def _activation(op: Op, name: str | None = None) -> Callable[..., Value]:
    def run(x: Value, inplace: bool = False) -> Value:
        x = settled(x)
        if isinstance(x, Uniform) and name is not None and not inplace:
            return uniform(name, x)
        if not isinstance(x, Row):
            raise Unknown("the unit applies an activation to a weight")
        return replaced(x, x._trace.row(op, x)) if inplace else x._trace.row(op, x)

    return run


def _gelu(x: Value, approximate: str = "none") -> Value:
    return _activation(Op.GELU_TANH if approximate == "tanh" else Op.GELU, "gelu" if approximate == "none" else None)(x)


def _softplus(x: Value, beta: float = 1, threshold: float = 20) -> Value:
    if threshold != 20:
        raise Unknown("the unit has a softplus with a threshold of its own")
    inner = _activation(Op.SOFTPLUS, "softplus")
    return inner(x) if beta == 1 else multiply(inner(multiply(x, float(beta))), 1 / float(beta))


def _leaky_relu(x: Value, negative_slope: float = 0.01, inplace: bool = False) -> Value:
    x = settled(x)
    if not isinstance(x, Row) or not negative_slope > 0:
        raise Unknown("the unit has an unusual leaky ReLU")
    result = x._trace.row(Op.LEAKY, x, numbers=(float(negative_slope),))
    return replaced(x, result) if inplace else result


_relu, _tanh, _sigmoid = _activation(Op.RELU, "relu"), _activation(Op.TANH, "tanh"), _activation(Op.SIGMOID, "sigmoid")
_silu, _sin = _activation(Op.SILU, "silu"), _activation(Op.SIN, "sin")
KNOWN.update({
    functional.relu: _relu, torch.relu: _relu, torch.relu_: in_place(_relu),
    functional.tanh: _tanh, torch.tanh: _tanh, torch.tanh_: in_place(_tanh),
    functional.sigmoid: _sigmoid, torch.sigmoid: _sigmoid, torch.sigmoid_: in_place(_sigmoid),
    torch.special.expit: _sigmoid, functional.silu: _silu, functional.gelu: _gelu, functional.softplus: _softplus,
    functional.leaky_relu: _leaky_relu, torch.sin: _sin, torch.sin_: in_place(_sin),
    torch.Tensor.relu: _relu, torch.Tensor.relu_: in_place(_relu), torch.Tensor.tanh: _tanh,
    torch.Tensor.tanh_: in_place(_tanh), torch.Tensor.sigmoid: _sigmoid, torch.Tensor.sigmoid_: in_place(_sigmoid),
    torch.Tensor.sin: _sin, torch.Tensor.sin_: in_place(_sin),
    torch.cos: lambda x: uniform("cos", x), torch.Tensor.cos: lambda x: uniform("cos", x),
    torch.exp: lambda x: uniform("exp", x), torch.Tensor.exp: lambda x: uniform("exp", x),
})  # fmt: skip
