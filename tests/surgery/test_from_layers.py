"""A stack of layers as a block, exactly, and back: outputs, gradients, statistics and weights."""

import copy
import warnings

import pytest
import torch
from torch import nn

import anydepth as ad
from anydepth.errors import ConfigError, NumericalError, UnitError
from stacks import Loop, Pair, ResidualConv, SmallResNet, Telling, seen, spread, stage

EXACT = {"rtol": 0, "atol": 0}
CLOSE = {"rtol": 1e-12, "atol": 1e-12}
"""Sums in another order, and variances by way of their logarithm: some ulps through a handful of layers."""


@pytest.fixture(autouse=True)
def _strict():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def encoder(norm_first, count=3):
    layer = nn.TransformerEncoderLayer(8, 2, 12, batch_first=True, norm_first=norm_first)
    return nn.TransformerEncoder(layer, count, enable_nested_tensor=not norm_first)


def gradients_by_layer(block_gradients, prefix):
    """The gradients of a block's tensors by layer, under the layers' own names."""
    inside = f"{prefix}unit.layer."
    taken = {n.removeprefix(inside): g for n, g in block_gradients.items() if n.startswith(inside)}
    return [{name: grad[i] for name, grad in taken.items()} for i in range(len(next(iter(taken.values()))))]


@pytest.mark.parametrize("train", [True, False])
@pytest.mark.parametrize("norm_first", [True, False])
def test_a_transformer_is_its_block_to_the_bit_with_masks_and_dropout(norm_first, train):
    model = spread(encoder(norm_first))
    made = ad.from_layers(model)
    x = torch.randn(2, 6, 8, dtype=torch.float64)
    mask = torch.tensor([[False] * 6, [False] * 4 + [True] * 2])
    out, grad, by_name = seen(model, x, train=train, src_key_padding_mask=mask)
    found, found_grad, block_grads = seen(made, x, train=train, src_key_padding_mask=mask)
    assert made.layers[0].block.stats.path == "layers"
    torch.testing.assert_close(found, out, **EXACT)
    torch.testing.assert_close(found_grad, grad, **EXACT)
    for i, layer in enumerate(gradients_by_layer(block_grads, "layers.0.block.")):
        for name, value in layer.items():
            torch.testing.assert_close(value, by_name[f"layers.{i}.{name}"], **EXACT)


@pytest.mark.parametrize("norm_first", [True, False])
def test_the_general_path_agrees_to_rounding(norm_first):
    model = spread(encoder(norm_first))
    x = torch.randn(2, 6, 8, dtype=torch.float64)
    with ad.fast_paths(False):
        made = ad.from_layers(model)
        for one, other in zip(seen(model, x, train=True)[:2], seen(made, x, train=True)[:2], strict=True):
            torch.testing.assert_close(other, one, **CLOSE)


def test_a_resnet_keeps_the_layers_that_change_the_shape_and_its_statistics():
    model = spread(SmallResNet())
    made = ad.from_layers(model, where="layer*")
    assert [type(part).__name__ for part in made.layer1] == ["ContinuousBlock"]
    assert [type(part).__name__ for part in made.layer2] == ["ResidualConv", "ContinuousBlock"]
    assert isinstance(model.layer1[0], ResidualConv)
    x = torch.randn(3, 3, 8, 8, dtype=torch.float64)
    for train in (True, True, False):
        out, grad, by_name = seen(model, x, train=train)
        found, found_grad, block_grads = seen(made, x, train=train)
        torch.testing.assert_close(found, out, **CLOSE)
        torch.testing.assert_close(found_grad, grad, **CLOSE)
    for i, layer in enumerate(gradients_by_layer(block_grads, "layer2.1.")):
        for name, value in layer.items():
            torch.testing.assert_close(value, by_name[f"layer2.{i + 1}.{name}"], **CLOSE)
    back = ad.to_layers(made)
    assert list(back.state_dict()) == list(model.state_dict())
    for name, value in model.state_dict().items():
        torch.testing.assert_close(back.state_dict()[name], value, **CLOSE)


def test_weights_come_back_to_the_bit_and_the_layers_given_are_left_alone():
    layers = spread(stage(4, 4, 3, stride=1)).eval()
    before = copy.deepcopy(layers.state_dict())
    block = ad.from_layers(layers, example=torch.randn(2, 4, 5, 5, dtype=torch.float64))
    assert isinstance(block, ad.ContinuousBlock)
    assert (block.size, block.steps, block.scale, block.scheme.name) == (3, 3, 3, "euler")
    back = ad.to_layers(block)
    assert [type(layer) for layer in back] == [ResidualConv] * 3
    for name, value in before.items():
        assert torch.equal(layers.state_dict()[name], value)
        if not name.endswith("running_var"):  # kept in the logarithm
            assert torch.equal(back.state_dict()[name], value)
    x = torch.randn(2, 4, 5, 5, dtype=torch.float64)
    torch.testing.assert_close(back.eval()(x), layers(x), **CLOSE)


def test_resnet_18_stages_of_two_layers_become_a_block_of_one():
    layers = spread(stage(4, 6, 2)).eval()
    made = ad.from_layers(layers)
    assert [type(part) for part in made] == [ResidualConv, ad.ContinuousBlock]
    x = torch.randn(2, 4, 6, 6, dtype=torch.float64)
    torch.testing.assert_close(made.eval()(x), layers(x), **CLOSE)


def test_all_stages_at_once_become_one_block_each():
    layers = spread(nn.Sequential(*stage(3, 4, 3), *stage(4, 6, 3))).eval()
    made = ad.from_layers(layers)
    assert [type(part) for part in made] == [ResidualConv, ad.ContinuousBlock] * 2
    x = torch.randn(2, 3, 8, 8, dtype=torch.float64)
    torch.testing.assert_close(made.eval()(x), layers(x), **CLOSE)


def test_a_loop_gets_tuples_keywords_and_arguments_handed_on():
    model = spread(Loop())
    made = ad.from_layers(model)
    x, bias = torch.randn(2, 5, dtype=torch.float64), torch.randn(5, dtype=torch.float64)
    mask = torch.tensor([[1.0], [0.0]], dtype=torch.float64)
    for args in ((x,), (x, mask), (x, mask, bias)):
        for one, other in zip(seen(model, *args)[:2], seen(made, *args)[:2], strict=True):
            torch.testing.assert_close(other, one, **EXACT)
    assert len(made.layers) == 1
    assert made.layers[0].norm.normalized_shape == (5,)
    out = made.layers[0](x, mask, bias=bias)
    assert out[1:] == (None, bias)
    back = ad.to_layers(made)
    assert [layer.layer_idx for layer in back.layers] == [0, 1, 2, 3]
    torch.testing.assert_close(back(x), model(x), **EXACT)


def test_caches_and_further_results_are_refused_in_one_line():
    made = ad.from_layers([Telling(i) for i in range(3)])
    x = torch.randn(2, 5)
    with pytest.raises(UnitError, match="use_cache=False"):
        made(x, use_cache=True)
    with pytest.raises(UnitError, match="output_attentions=False"):
        made(x, telling=True)
    assert made(x, use_cache=False).shape == x.shape


class Attend(nn.Module):
    """A branch: whoever calls it adds the input."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(5, 5)

    def forward(self, x):
        return self.linear(x).tanh()


class Adding(nn.Module):
    def __init__(self):
        super().__init__()
        self.parts = nn.ModuleList([Attend() for _ in range(4)])

    def forward(self, x):
        for part in self.parts:
            x = x + part(x)
        return x


def test_branches_whose_caller_adds_the_input():
    model = spread(Adding())
    x = torch.randn(3, 5, dtype=torch.float64)
    block = ad.from_layers(model.parts, branches=True, example=x)
    torch.testing.assert_close(block(x), model(x), **CLOSE)
    inside = ad.from_layers(model, branches=True, example=x)
    torch.testing.assert_close(inside(x), model(x), **CLOSE)
    torch.testing.assert_close(ad.to_layers(inside)(x), model(x), **EXACT)
    torch.testing.assert_close(ad.to_layers(block)(x), model(x), **EXACT)
    sequence = ad.to_layers(nn.Sequential(block))
    torch.testing.assert_close(sequence(x), model(x), **EXACT)


def test_a_layer_used_many_times_is_one_constant():
    layer = spread(ResidualConv(4, 4)).eval()
    block = ad.from_layers([layer] * 6)
    assert (block.size, block.steps, block.scale) == (1, 6, 6)
    x = torch.randn(2, 4, 5, 5, dtype=torch.float64)
    expected = x
    for _ in range(6):
        expected = layer(expected)
    torch.testing.assert_close(block.eval()(x), expected, **CLOSE)
    back = ad.to_layers(block)
    assert len(back) == 6
    assert len(set(map(id, back))) == 1
    other = spread(ResidualConv(4, 4)).eval()
    assert ad.from_layers([layer, layer, other, other]).size == 2
    assert ad.from_layers([layer, other, other, other]).size == 4


def test_frozen_layers_become_a_block_of_their_own():
    model = spread(Loop(6))
    for layer in model.layers[:4]:
        layer.requires_grad_(False)
    made = ad.from_layers(model)
    assert [stack.block.size for stack in made.layers] == [4, 2]
    assert [stack.block.unit.layer.linear.weight.requires_grad for stack in made.layers] == [False, True]
    x = torch.randn(2, 5, dtype=torch.float64)
    torch.testing.assert_close(made(x), model(x), **EXACT)


def test_settings_that_differ_split_a_stack_unless_ignored():
    layers = [Telling(i, drop=i / 10) for i in range(3)]
    with pytest.raises(ConfigError, match="leave"):
        ad.from_layers(layers, scale=2)
    block = ad.from_layers(layers, ignore="drop_prob")
    assert block.size == 3
    assert [layer.drop_prob for layer in ad.to_layers(block)] == [0, 0.1, 0.2]
    pair = ad.from_layers([Telling(0), Telling(1), Telling(2, drop=0.5)])
    assert [type(part).__name__ for part in pair] == ["ContinuousBlock", "Telling"]


def test_other_bases_are_projections_and_other_solvers_are_taken():
    layers = spread(nn.Sequential(*(nn.Linear(3, 3) for _ in range(8))))
    block = ad.from_layers(layers, "linear", 4, scheme="midpoint", steps=5)
    assert (block.size, block.steps, block.scheme.name, block.scale) == (4, 5, "midpoint", 8)
    exact = ad.from_layers(layers)
    expected = ad.compress(exact, basis="linear", size=4)
    assert torch.equal(block.stored("layer.weight"), expected.stored("layer.weight"))
    with pytest.raises(NumericalError, match="differs from that of its layers"):
        ad.from_layers(layers, "linear", 4, example=torch.randn(2, 3, dtype=torch.float64))


def test_any_euler_block_can_become_layers_and_others_are_refused():
    block = ad.ContinuousBlock(lambda: ad.units.MLP(3), "linear", 3, scheme="euler", steps=5, scale=2).double()
    x = torch.randn(4, 3, dtype=torch.float64)
    model = nn.Sequential(nn.Linear(3, 3).double(), block)
    back = ad.to_layers(model)
    assert len(back) == 6
    torch.testing.assert_close(back(x), model(x), **CLOSE)
    torch.testing.assert_close(ad.to_layers(block)(x), block(x), **CLOSE)
    holder = nn.Module()
    holder.inner = block
    assert len(ad.to_layers(holder).inner) == 5
    torch.testing.assert_close(ad.to_layers(holder).inner(x), block(x), **CLOSE)
    with pytest.raises(ConfigError, match="set_solver"):
        ad.to_layers(ad.set_solver(block, scheme="rk4"))


def test_blocks_of_layers_refine_and_come_back_with_more_layers():
    model = spread(Loop(3))
    made = ad.refine(ad.from_layers(model))
    assert made.layers[0].block.steps == 6
    back = ad.to_layers(made)
    x = torch.randn(2, 5, dtype=torch.float64)
    assert len(back.layers) == 6
    torch.testing.assert_close(back(x), made(x), **CLOSE)


def test_what_cannot_be_a_block_is_said_in_one_line():
    with pytest.raises(ConfigError, match="Linear and a ReLU"):
        ad.from_layers(nn.Sequential(nn.Linear(2, 2), nn.ReLU()))
    with pytest.raises(ConfigError, match="at least one layer"):
        ad.from_layers([])
    with pytest.raises(ConfigError, match="several lists of layers, 'layer1', 'layer2'"):
        ad.from_layers(SmallResNet())
    with pytest.raises(ConfigError, match="did you mean 'layer2'"):
        ad.from_layers(SmallResNet(), where="layer3")
    with pytest.raises(ConfigError, match="no list of layers"):
        ad.from_layers(nn.Linear(2, 2))
    with pytest.raises(UnitError, match="in front"):
        ad.from_layers([nn.Conv2d(2, 2, 3) for _ in range(2)])(torch.randn(1, 2, 8, 8))
    tied = Loop()
    tied.first.weight = tied.layers[1].linear.weight
    with pytest.raises(ConfigError, match=r"share the tensor 'first\.weight'"):
        ad.from_layers(tied)
    hooked = [nn.Linear(2, 2), nn.Linear(2, 2)]
    hooked[1].register_forward_hook(lambda *_: None)
    with pytest.raises(ConfigError, match="has hooks"):
        ad.from_layers(hooked)


class Twice(nn.Sequential):
    """Not what its layers do one after another."""

    def forward(self, x):
        return super().forward(x) + x


def test_a_sequential_with_a_forward_of_its_own_is_a_model():
    layers = spread(Twice(*(nn.Linear(3, 3) for _ in range(3))))
    x = torch.randn(2, 3, dtype=torch.float64)
    with pytest.raises(ConfigError, match="where="):
        ad.from_layers(layers)
    torch.testing.assert_close(ad.from_layers(layers, where="")(x), layers(x), **EXACT)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_narrow_numbers_are_those_of_the_layers_too(dtype):
    model = spread(Loop()).to(dtype)
    x = torch.randn(2, 5, dtype=dtype)
    assert torch.equal(ad.from_layers(model)(x), model(x))


@pytest.mark.parametrize("gradient", ["checkpoint", "adjoint"])
def test_other_gradient_modes_take_the_same_arguments(gradient):
    model = spread(Loop())
    made = ad.from_layers(model, gradient=gradient)
    x, bias = torch.randn(2, 5, dtype=torch.float64), torch.randn(5, dtype=torch.float64)
    out, grad, _ = seen(model, x, None, bias)
    found, found_grad, _ = seen(made, x, None, bias)
    torch.testing.assert_close(found, out, **CLOSE)
    if gradient == "checkpoint":
        torch.testing.assert_close(found_grad, grad, **CLOSE)


def test_compilers_follow():
    made = ad.from_layers(spread(Loop()))
    x = torch.randn(2, 5, dtype=torch.float64)
    with torch.no_grad():
        found = torch.compile(made, backend="eager")(x)
    torch.testing.assert_close(found, made(x), **CLOSE)


def test_nested_tensors_of_pytorch_are_off_inside_and_on_again_afterwards():
    model = spread(encoder(norm_first=False)).eval()
    assert model.use_nested_tensor
    made = ad.from_layers(model)
    mask = torch.tensor([[False] * 6, [False] * 4 + [True] * 2])
    x = torch.randn(2, 6, 8, dtype=torch.float64)
    with torch.no_grad(), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The PyTorch API of nested tensors")
        expected = model(x, src_key_padding_mask=mask)
        torch.testing.assert_close(made(x, src_key_padding_mask=mask)[~mask], expected[~mask], **CLOSE)
    assert ad.to_layers(made).use_nested_tensor


def test_tuple_states_pass_through():
    layers = spread(nn.Sequential(*(Pair() for _ in range(4))))
    state = tuple(torch.randn(2, 3, dtype=torch.float64) for _ in range(2))
    block = ad.from_layers(layers, example=(state,))
    for one, other in zip(layers(state), block(state), strict=True):
        torch.testing.assert_close(other, one, **EXACT)
    for one, other in zip(layers(state), ad.to_layers(block)(state), strict=True):
        torch.testing.assert_close(other, one, **EXACT)


def test_copies_and_state_dicts_keep_all(tmp_path):
    made = ad.from_layers(spread(Loop()))
    x = torch.randn(2, 5, dtype=torch.float64)
    twin = copy.deepcopy(made)
    torch.testing.assert_close(twin(x), made(x), **EXACT)
    assert twin.layers[0].returns is twin.layers[0].block.unit.returns
    ad.save(made, tmp_path / "m")
    other = ad.from_layers(Loop().double())
    ad.load(tmp_path / "m", into=other)
    torch.testing.assert_close(other(x), made(x), **EXACT)


def test_lists_to_choose_from_are_those_with_names():
    model = nn.Sequential(nn.Linear(2, 2), nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2)))
    with pytest.raises(ConfigError, match=r"fits 'layer\*'; expected one of 1$"):
        ad.from_layers(model, where="layer*")
