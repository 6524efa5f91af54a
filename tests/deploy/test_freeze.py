"""Frozen models: plain layers that give what the blocks give (every scheme: test_export), and need no anydepth."""

import pickle
import subprocess
import sys
import threading

import pytest
import torch
from torch import nn

import anydepth as ad
from anydepth.block.form import weights_of
from anydepth.depth.schemes import fixed_schemes
from anydepth.errors import ConfigError, UnitError
from small_units import trained


def image_net(**options):
    config = {"channels": [4, 8], "image": [1, 12, 12], "pool": 3, "basis": "linear", "size": 3, "steps": 2} | options
    return trained(ad.build("image", **config), 1 + 2 * torch.randn(8, 1, 12, 12))


@pytest.mark.parametrize("unit", ["skip_init_conv", "postact_conv", "bottleneck", "grouped_conv"])
def test_units_freeze_and_their_norms_are_folded(unit):
    model = image_net(unit=unit, basis="constant", size=2)
    frozen = ad.freeze(model)
    x = torch.randn(3, 1, 12, 12)
    with torch.no_grad():
        torch.testing.assert_close(frozen(x), model(x), rtol=1e-5, atol=1e-5)
    kept = {"skip_init_conv": 1, "postact_conv": 0, "bottleneck": 1, "grouped_conv": 1}[unit]
    outside = 3  # before both stitches' first convolutions, and before the classifier
    factors = [name for name, _ in frozen.named_buffers() if name.startswith("factor")]
    assert len(factors) == outside + kept * 2 * 2, "of 2 blocks with 2 functions each"
    assert not any(isinstance(module, (nn.BatchNorm2d, nn.Conv2d)) for module in frozen.modules())
    assert not any(isinstance(module, ad.ContinuousBlock) for module in frozen.modules())


def test_evaluations_with_the_same_weights_share_a_layer():
    """RK4 on constants reads one set of weights per step."""
    block = ad.ContinuousBlock(lambda: ad.units.PreactConv(4), "constant", 2, scheme="rk4", steps=2).eval()
    frozen = ad.freeze(block)
    assert sum(p.numel() for p in frozen.parameters()) <= sum(p.numel() for p in block.parameters())


def test_taggers_and_flows_freeze():
    tagger = trained(ad.build("tagger", words=30, classes=5, width=8, size=3), *_sentences())
    flow = trained(ad.build("flow", features=3, classes=2, size=2, steps=3), torch.randn(4, 3))
    for model, inputs in ((tagger, _sentences()), (flow, (torch.randn(5, 3),))):
        with torch.no_grad():
            torch.testing.assert_close(ad.freeze(model)(*inputs), model(*inputs), rtol=1e-5, atol=1e-5)


def _sentences():
    return torch.randint(1, 30, (3, 6)), torch.arange(6) < torch.tensor([[6], [2], [4]])


class Timed(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 3)

    def forward(self, t, state):
        x, v = state
        return v, torch.tanh(self.linear(x)) * t


def test_time_and_tuple_states_freeze():
    block = ad.ContinuousBlock(Timed, "linear", 2, scheme="midpoint", steps=3, time=True).eval()

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.block = block

        def forward(self, x, v):
            return self.block((x, v))[0]

    x, v = torch.randn(2, 4, 3)
    with torch.no_grad():
        torch.testing.assert_close(ad.freeze(Model())(x, v), Model()(x, v))


class Odd(nn.Module):
    """Norms in all the places where folding could go wrong."""

    def __init__(self):
        super().__init__()
        self.conv, self.conv3d = nn.Conv2d(4, 4, 3, padding=1), nn.Conv3d(1, 1, 1)
        self.first, self.second = nn.BatchNorm2d(4), nn.BatchNorm2d(4, affine=False)
        self.none = nn.BatchNorm2d(4, track_running_stats=False)
        self.linear, self.flat = nn.Linear(5, 5), nn.BatchNorm1d(4)
        self.normed = nn.utils.parametrizations.weight_norm(nn.Conv2d(4, 4, 1))

    def forward(self, x):
        once = self.conv(x)
        both = self.second(self.first(input=once)) + self.first(self.conv(2 * x)) + self.second(self.normed(x))
        cube = self.conv3d(both[:, None])[:, 0]
        return self.none(self.conv(cube)) + self.flat(self.linear(cube[:, :, 0])).mean(-1)[:, :, None, None]


def test_folding_leaves_alone_what_it_must():
    model = trained(nn.Sequential(nn.Conv2d(1, 4, 1), Odd()), torch.randn(6, 1, 5, 5))
    model.insert(1, ad.ContinuousBlock(lambda: ad.units.PreactConv(4), size=2, scheme="euler"))
    x = torch.randn(3, 1, 5, 5)
    model.eval()
    with torch.no_grad():
        torch.testing.assert_close(ad.freeze(model)(x), model(x), rtol=1e-5, atol=1e-5)


def test_a_block_in_two_places_and_other_precisions():
    block = trained(ad.ContinuousBlock(lambda: ad.units.PreactConv(4), size=2), torch.randn(4, 4, 6, 6))
    twice = nn.Sequential(block, nn.ReLU(), block)
    for dtype, close in ((torch.float64, 1e-12), (torch.float32, 1e-5), (torch.bfloat16, 0.1)):
        model, x = twice.to(dtype), torch.randn(2, 4, 6, 6, dtype=dtype)
        with torch.no_grad():
            found = ad.freeze(model)(x)
            assert found.dtype == dtype
            torch.testing.assert_close(found, model(x), rtol=close, atol=close)


def test_a_model_in_training_is_frozen_in_evaluation():
    model = image_net().train()
    frozen = ad.freeze(model)
    assert model.training
    assert not any(module.training for module in frozen.modules())
    assert not any(parameter.requires_grad for parameter in frozen.parameters())


def test_freezing_changes_nothing_in_the_model():
    model = image_net()
    before = pickle.dumps(weights_of(model))
    ad.freeze(model)
    assert pickle.dumps(weights_of(model)) == before
    assert all(parameter.requires_grad for parameter in model.parameters())


def test_a_frozen_model_runs_where_there_is_no_anydepth(tmp_path):
    model = image_net()
    x = torch.randn(2, 1, 12, 12)
    with torch.no_grad():
        torch.save({"model": ad.freeze(model), "x": x, "y": model(x)}, tmp_path / "frozen.pt")
    code = (
        "import sys; sys.modules['anydepth'] = None\n"
        "import torch\n"
        f"kept = torch.load({str(tmp_path / 'frozen.pt')!r}, weights_only=False)\n"
        "torch.testing.assert_close(kept['model'](kept['x']), kept['y'], rtol=1e-5, atol=1e-5)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


class Branching(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 3)

    def forward(self, x):
        return self.linear(x) if x.sum() > 0 else -self.linear(x)


def test_what_cannot_be_frozen_is_refused():
    with pytest.raises(ConfigError, match="adaptive scheme"):
        ad.freeze(nn.Sequential(ad.ContinuousBlock(lambda: nn.Linear(3, 3), size=1, scheme="dopri54")))
    with pytest.raises(UnitError, match="graph of layers"):
        ad.freeze(nn.Sequential(ad.ContinuousBlock(Branching, size=1, scheme="euler", steps=2)))


def test_writing_in_place_leaves_inputs_and_other_readers_alone():
    """What a layer made for one reader is written over; what others read, and narrow numbers, are not."""

    class Twice(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = nn.Conv2d(2, 2, 1)

        def forward(self, x):
            y = self.conv(x)
            return y.relu() + y

    for scheme in ("euler", "heun"):
        block = ad.ContinuousBlock(Twice, "constant", 2, scheme=scheme, steps=2).eval()
        x = torch.randn(3, 2, 4, 4)
        before, frozen = x.clone(), ad.freeze(block)
        with torch.no_grad():
            torch.testing.assert_close(frozen(x), block(x), rtol=1e-5, atol=1e-6)
        assert torch.equal(x, before)
    narrow = ad.ContinuousBlock(lambda: nn.Conv2d(2, 2, 1), scheme="euler", steps=4).bfloat16().eval()
    x = torch.randn(3, 2, 4, 4).bfloat16()
    with torch.no_grad():
        torch.testing.assert_close(ad.freeze(narrow)(x), narrow(x), rtol=1e-2, atol=1e-2)


class Turned(nn.Module):
    """A slope that is a view of the state."""

    def __init__(self):
        super().__init__()
        self.factor = nn.Parameter(torch.ones(()))

    def forward(self, x):
        return x.transpose(-1, -2)


class Coupled(nn.Module):
    """A slope that is the other part of the state itself."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 3)

    def forward(self, state):
        x, v = state
        return v, self.linear(x)


class Around(nn.Module):
    """The first block's result is read again after the second."""

    def __init__(self, scheme):
        super().__init__()
        self.first, self.second = (
            ad.ContinuousBlock(lambda: ad.units.PreactConv(2), "constant", 2, scheme=scheme, steps=2) for _ in range(2)
        )

    def forward(self, x):
        y = self.first(x)
        return y + self.second(y)


@pytest.mark.parametrize("scheme", fixed_schemes())
def test_sums_are_written_over_states_that_nobody_reads_again(scheme):
    turned = nn.Sequential(ad.ContinuousBlock(Turned, scheme=scheme, steps=3)).eval()
    coupled = ad.ContinuousBlock(Coupled, scheme=scheme, steps=3).eval()

    class Pair(nn.Module):
        def __init__(self):
            super().__init__()
            self.block = coupled

        def forward(self, x, v):
            x, v = self.block((x, v))
            return torch.cat((x, v))

    images = torch.randn(3, 2, 4, 4)
    around = trained(Around(scheme), images)
    assert "add_" in ad.freeze(around).code
    for model, inputs in ((turned, (images,)), (Pair(), (torch.randn(4, 3), torch.randn(4, 3))), (around, (images,))):
        before, frozen = [part.clone() for part in inputs], ad.freeze(model)
        with torch.no_grad():
            expected, found, again = model(*inputs), frozen(*inputs), frozen(*inputs)
        torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6)
        assert torch.equal(found, again)
        assert all(map(torch.equal, inputs, before))


class Everyday(nn.Module):
    """Names that freezing would take, a view, a hook, and a norm that cannot be folded."""

    def __init__(self):
        super().__init__()
        self.stem, self.norm = nn.Conv2d(2, 2, 3, padding=1), nn.BatchNorm2d(2)
        self.block = ad.ContinuousBlock(lambda: nn.Conv2d(2, 2, 3, padding=1), "constant", 2, scheme="euler", steps=2)
        self.weight0, self.shift0 = nn.Parameter(torch.full((1,), 3.0)), nn.Parameter(torch.full((1,), 2.0))
        self.head = nn.Linear(32, 3)

    def forward(self, x):
        y = self.block(self.stem(self.norm(x))) * self.weight0 + self.shift0
        return self.head(y.view(x.size(0), -1))


@pytest.mark.parametrize("hooked", [False, True])
def test_names_views_and_hooks_survive(hooked):
    model = Everyday().eval()
    if hooked:
        model.stem.register_forward_hook(lambda module, given, out: 2 * out)
    x = torch.randn(3, 2, 4, 4)
    with torch.no_grad():
        torch.testing.assert_close(ad.freeze(model)(x), model(x), rtol=1e-5, atol=1e-5)


def test_autocast_keeps_the_state_wide():
    block = ad.ContinuousBlock(lambda: nn.Conv2d(2, 2, 1), "constant", 4, scheme="euler", steps=4).eval()
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        assert ad.freeze(block)(torch.randn(3, 2, 4, 4)).dtype == torch.float32


class Lasting(nn.Module):
    """Looks at its norm again, by another name, after everything else."""

    def __init__(self):
        super().__init__()
        self.bn, self.conv = nn.BatchNorm2d(4), nn.Conv2d(4, 4, 3, padding=1)

    def forward(self, x):
        normed = self.bn(x)
        return self.conv(normed) + normed.flatten(2).view(x.shape)


@pytest.mark.parametrize("make", [Lasting, lambda: ad.units.PreactConv(4)])
def test_norms_are_written_over_only_when_nobody_holds_them(make):
    block = ad.ContinuousBlock(make, "linear", 3, scheme="rk4", steps=3)
    for _ in range(3):
        block(torch.randn(8, 4, 5, 5))
    frozen = ad.freeze(block.eval())
    reused = sum("out" in node.kwargs for node in frozen.graph.nodes)
    assert reused == (0 if make is Lasting else 11)
    x = torch.randn(2, 4, 5, 5)
    with torch.no_grad():
        wanted = block(x)
        for _ in range(2):
            torch.testing.assert_close(frozen(x), wanted, rtol=1e-5, atol=1e-5)


def test_freezing_does_not_disturb_other_threads():
    """A tracer that patches nn.Module for all threads would have them call the wrong thing, or fail."""
    other = ad.ContinuousBlock(lambda: nn.Sequential(nn.Linear(3, 8), nn.LayerNorm(8), nn.Linear(8, 3)), steps=3).eval()
    frozen_from = nn.Sequential(nn.Linear(3, 3), ad.ContinuousBlock(lambda: ad.units.TanhNet(3, 8), steps=20))
    x = torch.randn(2, 3)
    expected, over, wrong = other(x), threading.Event(), []

    def infer():
        while not over.is_set():
            try:
                if not torch.equal(other(x), expected):
                    wrong.append("other numbers")
            except Exception as error:
                wrong.append(error)

    thread = threading.Thread(target=infer)
    thread.start()
    try:
        for _ in range(10):
            ad.freeze(frozen_from)
    finally:
        over.set()
        thread.join()
    assert not wrong
