"""The cheap path for images: the same results, gradients and statistics as the general path."""

import copy
import sys
import threading

import pytest
import torch
from torch import nn

import anydepth as ad
from anydepth.depth.bases import BASES
from anydepth.depth.schemes import fixed_schemes
from anydepth.fast.image_path import chain_of

MAKERS = {
    "preact": lambda: ad.units.PreactConv(4),
    "without norms": lambda: ad.units.PostactConv(4, bias=True, normalise=False),
    "postact": lambda: ad.units.PostactConv(4),
    "bottleneck": lambda: ad.units.Bottleneck(4),
    "grouped": lambda: ad.units.GroupedConv(4),
    "sequential": lambda: nn.Sequential(
        nn.Conv2d(4, 3, 3, padding=1), nn.ReLU(inplace=True), nn.BatchNorm2d(3), nn.Conv2d(3, 4, 1)
    ),
}


def block_of(kind="preact", **options):
    torch.manual_seed(0)
    return ad.ContinuousBlock(MAKERS[kind], **options).double()


def image(seed=1, form=torch.contiguous_format):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(3, 4, 5, 6, dtype=torch.float64, generator=generator).contiguous(memory_format=form)


def both(look, **options):
    """What `look` finds about a block on the path for images, which must be taken, and on the general one."""
    quick = block_of(**options)
    found = look(quick)
    assert quick.stats.path == "image"
    with ad.fast_paths(False):
        general = block_of(**options)
        other = look(general)
    assert general.stats.path == "general"
    return found, other


def everything(block, x, passes=2):
    """Outputs, gradients and buffers after some passes."""
    x = x.clone(memory_format=torch.preserve_format).requires_grad_()
    for _ in range(passes):
        out = block(x)
        out.sin().sum().backward()
    named = {name: p.grad for name, p in block.named_parameters()}
    return {"out": out.detach(), "x": x.grad, **named, **dict(block.named_buffers())}


def assert_same(one, other, tolerance=1e-11):
    assert one.keys() == other.keys()
    for name, value in one.items():
        if value is None or other[name] is None:
            assert value is other[name], name
        else:
            torch.testing.assert_close(value, other[name], rtol=tolerance, atol=tolerance, msg=name)


@pytest.mark.parametrize("kind", MAKERS)
@pytest.mark.parametrize("scheme", fixed_schemes())
def test_training_is_that_of_the_general_path(kind, scheme):
    options = {"kind": kind, "basis": "linear", "size": 3, "scheme": scheme, "steps": 2, "scale": 2}
    assert_same(*both(lambda block: everything(block, image()), **options))


@pytest.mark.parametrize("basis", BASES.names())
@pytest.mark.parametrize("form", [torch.contiguous_format, torch.channels_last])
def test_every_basis_and_both_memory_formats(basis, form):
    options = {"basis": basis, "size": 4, "scheme": "rk4", "steps": [0, 0.3, 1]}
    one, other = both(lambda block: everything(block, image(form=form)), **options)
    assert_same(one, other)
    assert one["out"].stride() == other["out"].stride()


@pytest.mark.parametrize("kind", MAKERS)
def test_evaluation_is_that_of_the_general_path_and_changes_nothing(kind):
    def look(block):
        block(image())
        block.eval()
        before = copy.deepcopy(block.state_dict())
        found = everything(block, image(2))
        assert_same(dict(block.named_buffers()), {n: before[n] for n, _ in block.named_buffers()}, 0)
        with torch.inference_mode():
            assert torch.equal(block(image(2)), found["out"])
        return found

    assert_same(*both(look, kind=kind, basis="linear", size=2, steps=3))


def test_what_is_frozen_gets_no_gradient():
    def look(block):
        block.unit.conv1.requires_grad_(False)
        block.unit.bn2.weight.requires_grad_(False)
        return everything(block, image())

    one, other = both(look, scheme="rk4_38", steps=2)
    assert one["unit.conv1.weight"] is None
    assert_same(one, other)


def test_an_input_without_gradient():
    def look(block):
        block(image()).square().sum().backward()
        return {name: p.grad for name, p in block.named_parameters()}

    for kind in ("preact", "postact"):
        assert_same(*both(look, kind=kind, scheme="midpoint", steps=2))


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("scheme", ["euler", "heun"])
@pytest.mark.parametrize("fast", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_gradients_of_gradients(fast, training, scheme):
    """One row for all steps, and the same row with two factors; every entry, or all of them along random directions."""
    block = block_of("preact", size=1, scheme=scheme, steps=2).train(training)
    names = [name for name, _ in block.named_parameters()]

    def run(x, *tensors):
        frozen = copy.deepcopy(dict(block.named_buffers()))
        return torch.func.functional_call(block, dict(zip(names, tensors, strict=True)) | frozen, (x,))

    inputs = (image()[:2, :, :2, :2].clone().requires_grad_(), *block.parameters())
    assert torch.autograd.gradcheck(run, inputs, atol=1e-5, check_batched_grad=True)
    assert torch.autograd.gradgradcheck(run, inputs, atol=1e-4, fast_mode=fast)


@pytest.mark.parametrize("kind", MAKERS)
@pytest.mark.parametrize("scheme", fixed_schemes())
def test_gradients_with_a_graph_are_those_without(kind, scheme):
    block = block_of(kind, size=1, scheme=scheme, steps=3)
    x = image().requires_grad_()
    wanted = (x, *block.parameters())
    plain, graph = (torch.autograd.grad(block(x).sin().sum(), wanted, create_graph=again) for again in (False, True))
    assert_same(dict(enumerate(plain)), dict(enumerate(graph)))


def test_weights_that_depend_on_the_input():
    block = block_of(size=1, scheme="euler", steps=2)
    x = image().requires_grad_()

    def run(again):
        kernel = block.unit.conv1.weight * x.mean()
        out = torch.func.functional_call(block, {"unit.conv1.weight": kernel}, (x,))
        return torch.autograd.grad(out.sum(), x, create_graph=again)[0]

    torch.testing.assert_close(run(True), run(False))


@pytest.mark.parametrize("kind", MAKERS)
@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_training_without_gradients(kind, mode):
    """As in recalibration: statistics are fitted, and outputs are those of training."""

    def look(block):
        with mode():
            out = block(image())
        return {"out": out.clone(), **dict(block.named_buffers())}

    assert_same(*both(look, kind=kind, scheme="rk4", steps=2))


LAYOUTS = {
    "transposed": lambda x: x.transpose(2, 3).contiguous().transpose(2, 3),
    "sliced": lambda x: x.repeat(1, 1, 1, 2)[..., ::2],
    "expanded": lambda x: x[:1].expand_as(x),
    "rotated": lambda x: x.transpose(0, 1).contiguous().transpose(0, 1),
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("training", [True, False])
def test_any_layout_with_and_without_gradients(layout, training):
    def look(block):
        x = LAYOUTS[layout](image())
        block.train(training)
        out = everything(block, x)
        with torch.no_grad():
            return {**out, "again": block(x)}

    for kind in ("preact", "postact", "bottleneck"):
        one, other = both(look, kind=kind, steps=2)
        assert_same(one, other)


def test_kernels_in_another_format_than_the_image():
    """Units made in channels-last give images in that format, whatever came in."""
    block = ad.ContinuousBlock(lambda: MAKERS["bottleneck"]().to(memory_format=torch.channels_last), size=3, steps=3)
    block.double().eval()
    x = image()
    with torch.no_grad():
        torch.testing.assert_close(block(x), block(x.requires_grad_()).detach())


def test_other_threads_do_not_meet_weights_of_a_depth():
    block, x = block_of(basis="linear", size=3, steps=3).eval(), image()
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    wanted, stop, found = block(x), threading.Event(), []

    def along():
        while not stop.is_set():
            block.trajectory(x)

    others = [threading.Thread(target=along) for _ in range(2)]
    try:
        for thread in others:
            thread.start()
        with torch.no_grad():
            found += [block(x) for _ in range(60)]
    finally:
        stop.set()
        sys.setswitchinterval(interval)
        for thread in others:
            thread.join()
    assert all(torch.allclose(out, wanted) for out in found)


def test_a_second_backward_pass_changes_no_statistics():
    block = block_of(steps=2)
    x = image().requires_grad_()
    out = block(x)
    before = copy.deepcopy(dict(block.named_buffers()))
    (grad,) = torch.autograd.grad(out.sum(), x, create_graph=True)
    grad.square().sum().backward()
    assert_same(dict(block.named_buffers()), before, 0)


def test_gradients_in_any_layout():
    """A loss may hand back a gradient that is expanded, or lies otherwise than the image."""

    def look(block):
        x = image(form=torch.channels_last).requires_grad_()
        block(x).sum().backward()
        first = x.grad
        block(x).contiguous().mul(image(3)).sum().backward()
        return {"x": x.grad, "first": first, **{name: p.grad for name, p in block.named_parameters()}}

    assert_same(*both(look, steps=2))


def plain(*layers):
    return nn.Sequential(*layers)


@pytest.mark.parametrize(
    "unit",
    [
        plain(nn.Conv2d(4, 4, 3, padding=1), nn.Dropout()),
        plain(nn.Conv2d(4, 4, 3, padding=1, padding_mode="circular")),
        plain(nn.Conv2d(4, 4, 3, padding=1), nn.BatchNorm2d(4, momentum=None)),
        plain(nn.Conv2d(4, 4, 3, padding=1), nn.BatchNorm2d(4, affine=False)),
        plain(nn.Conv2d(4, 4, 3)),
        plain(nn.Conv2d(4, 4, 3, padding="same")),
        plain(nn.ReLU()),
        plain(nn.ReLU(), nn.Conv2d(4, 4, 3, padding=1)),
        plain(nn.Identity(), nn.ReLU(inplace=True), nn.Conv2d(4, 4, 3, padding=1)),
        plain(nn.utils.parametrizations.weight_norm(nn.Conv2d(4, 4, 3, padding=1))),
        plain(nn.Conv2d(4, 4, 3, padding=1), plain(nn.ReLU())),
    ],
    ids=lambda unit: str(len(unit)),
)
def test_other_units_take_the_general_path(unit):
    assert chain_of(unit) is None


def test_watched_units_take_the_general_path():
    block = block_of(steps=2)
    block(image())
    assert block.stats.path == "image"
    handle = block.unit.conv1.register_forward_hook(lambda *_: None)
    block(image())
    assert block.stats.path == "general"
    assert block.stats.refused["image"] == "hooks or a compiler watch the unit's modules"
    handle.remove()
    block(image())
    assert block.stats.path == "image"


def test_a_unit_of_another_class_may_do_anything():
    class Mine(ad.units.PreactConv):
        pass

    assert chain_of(ad.units.PreactConv(4))
    assert chain_of(Mine(4)) is None


def test_what_is_worked_out_for_a_plan_does_not_grow():
    block = block_of(steps=2)
    for momentum in (0.1, 0.2, 0.3):
        block.unit.bn1.momentum = momentum
        block(image())
    assert len(block.plan.kept) == 1


def test_wrong_channels_are_told_as_ever():
    block = ad.ContinuousBlock(MAKERS["preact"])
    with pytest.raises(ad.errors.AnydepthError, match="shape"):
        block(torch.randn(2, 5, 4, 4))


def test_a_norm_in_another_mode_takes_the_general_path():
    """A batch norm that is kept in evaluation while the rest trains keeps its statistics to the bit."""
    block = block_of(steps=2)
    block.unit.bn1.eval()
    before = block.unit.bn1.running_var.clone()
    block(image())
    assert "modes" in block.stats.refused["image"]
    assert torch.equal(block.unit.bn1.running_var, before)


def test_shared_weights_take_the_general_path():
    def tied():
        conv = nn.Conv2d(4, 4, 3, padding=1)
        return nn.Sequential(conv, nn.ReLU(), conv)

    block = ad.ContinuousBlock(tied, steps=2).double()
    assert block(image()).shape == image().shape
    assert "shared" in block.stats.refused["image"]


def test_mixed_precision_takes_the_general_path():
    block = ad.ContinuousBlock(MAKERS["preact"], steps=2)
    x = image().float()
    with torch.autocast("cpu", torch.bfloat16):
        assert "mixed precision" in block.explain(x)
    assert "float32" in block.bfloat16().explain(x.bfloat16())
