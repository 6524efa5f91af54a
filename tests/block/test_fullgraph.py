"""`torch.compile(block, fullgraph=True)`: one graph of all steps, once a block has run."""

import copy
from functools import partial
from itertools import product

import pytest
import torch
from torch import nn

import anydepth as ad

pytestmark = pytest.mark.filterwarnings("ignore:The .grad attribute")  # from the compiler's look at weights


class MLP(nn.Module):
    """As a user writes one."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(4, 8), nn.Linear(8, 4)

    def forward(self, x):
        return self.second(torch.tanh(self.first(x)))


CASES = {"mlp": (MLP, (5, 4)), "conv": (partial(ad.units.PreactConv, 4), (2, 4, 5, 5))}


def warm(unit, basis="linear", scheme="euler", steps=4, **options):
    """A block that has run, with the state that it had before, and an input."""
    torch._dynamo.reset()
    torch.manual_seed(0)
    make, shape = CASES[unit]
    block = ad.ContinuousBlock(make, basis, 3, scheme=scheme, steps=steps, **options).double()
    x, before = torch.randn(shape, dtype=torch.float64), copy.deepcopy(block.state_dict())
    block(x)
    block.load_state_dict(before)
    return block, x


def results(call, block, x):
    """The output, all gradients, and the buffers afterwards."""
    x = x.clone().requires_grad_()
    out = call(x)
    found = torch.autograd.grad(out.square().sum(), [x, *block.parameters()])
    return [out.detach(), *found, *(buffer.clone() for buffer in block.buffers())]


def check(block, x, backend):
    twin = copy.deepcopy(block)
    found = results(torch.compile(block, fullgraph=True, backend=backend), block, x)
    torch.testing.assert_close(found, results(twin, twin, x), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    ("unit", "scheme", "basis", "steps", "is_training"),
    [("mlp", "euler", "linear", 4, False), ("mlp", "rk4", "constant", 1, True), ("conv", "euler", "constant", 1, True)],
)
def test_a_warm_block_is_one_graph(unit, scheme, basis, steps, is_training):
    block, x = warm(unit, basis, scheme, steps)
    check(block.train(is_training), x, "eager")


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize(
    ("unit", "scheme", "basis", "is_training"),
    list(product(CASES, ("euler", "rk4"), ("constant", "linear"), (False, True))),
)
def test_a_warm_block_is_one_graph_for_every_backend(unit, scheme, basis, is_training, backend):
    block, x = warm(unit, basis, scheme)
    check(block.train(is_training), x, backend)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")  # from the import of Inductor
@pytest.mark.parametrize("unit", CASES)
def test_one_graph_by_inductor(unit):
    block, x = warm(unit)
    check(block.eval(), x, "inductor")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")
def test_gradients_by_inductor_leave_the_state_alone():
    """Where every step reads one coefficient, whose copy Inductor could leave out."""
    block, x = warm("conv", "constant", steps=3)
    check(block.eval(), x, "inductor")
