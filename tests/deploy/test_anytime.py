"""A coarse answer first, and the bound on what that costs."""

import json
from math import inf

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

import anydepth as ad
from anydepth.deploy.anytime.policy import calibrated, lost_of, needed
from anydepth.train.training import train
from command import assert_refused, run_command
from small_runs import tiny


def made_up(count, seed, noise=(3.0, 1.0, 0.0)):
    """Scores of three forms, each nearer to the truth than the one before, and labels."""
    draw = torch.Generator().manual_seed(seed)
    labels = torch.randint(0, 4, (count,), generator=draw)
    clean = 3 * nn.functional.one_hot(labels, 4) + torch.randn(count, 4, generator=draw)
    return [clean + size * torch.randn(count, 4, generator=draw) for size in noise], labels


def test_the_bound_is_kept():
    """Over many draws, the share lost among all examples to come is above the bound in at most 5 % (and a margin)."""
    future, truth = made_up(20_000, 10_000)
    broken = saved = 0.0
    for seed in range(60):
        outputs, labels = made_up(900, seed)
        policy = calibrated(outputs, (1, 2, 16), labels, 4.0, seed=seed).policy
        broken += float(lost_of(policy.answers(future), future[-1], truth).double().mean()) > 0.04
        saved += float(policy.evaluations(future, (1, 2, 16)).mean()) / 16
    assert broken <= 7  # 3 are expected at most; 8 or more of 60 have a chance of 1 % at 5 %
    assert saved / 60 < 0.9


@settings(deadline=None, max_examples=15)
@given(st.integers(0, 1000), st.sampled_from([2.0, 5.0, 20.0]))
def test_stops_are_answers_of_their_forms(seed, bound):
    outputs, labels = made_up(600, seed)
    found = calibrated(outputs, (1, 2, 16), labels, bound, seed=seed)
    stops, answers = found.policy.stops(outputs), found.policy.answers(outputs)
    for i in range(0, 600, 50):
        assert torch.equal(answers[i], outputs[found.policy.forms[int(stops[i])]][i])
    assert found.policy.forms[-1] == 2
    assert found.lost <= bound / 100 * found.tested


def test_without_a_gain_only_the_finest_answers():
    outputs, labels = made_up(900, 0, noise=(1e6, 1e6, 0.0))
    policy = calibrated(outputs, (1, 2, 16), labels, 1.0).policy
    assert float(policy.evaluations(outputs, (1, 2, 16)).mean()) >= 16 or policy.threshold == -inf


def test_scores_that_are_not_finite_are_unsure():
    outputs, labels = made_up(900, 1)
    outputs[0][::3] = torch.nan
    policy = calibrated(outputs, (1, 2, 16), labels, 20.0).policy
    assert bool(policy.answers(outputs).isfinite().all())


@pytest.fixture(scope="module")
def net():
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Linear(2, 8),
        ad.ContinuousBlock(
            lambda: nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 8)),
            "linear",
            3,
            scheme="midpoint",
            steps=4,
        ),
        nn.Linear(8, 3),
    )
    x = torch.randn(1500, 2)
    y = (x.norm(dim=1) > 1).long() * (1 + (x[:, 0] > 0).long())
    optimizer = torch.optim.Adam(model.parameters(), 2e-2)
    for _ in range(60):
        loss = nn.functional.cross_entropy(model(x[:500]), y[:500])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model.eval(), ad.Anytime(model, [(x[500:1000], y[500:1000])], max_drop=3.0), x[1000:]


def test_an_answer_does_not_depend_on_the_batch(net):
    _, fast, x = net
    together, stops = fast(x), fast.spent.stops
    alone = torch.cat([fast(x[i : i + 1]) for i in range(60)])
    torch.testing.assert_close(together[:60], alone, rtol=1e-5, atol=1e-5)
    fast(x.flip(0))
    assert torch.equal(fast.spent.stops.flip(0), stops)


def test_costs_count_all_passes(net):
    model, fast, x = net
    fast(x)
    sums = np.cumsum(fast.costs)
    assert fast.spent.evaluations.tolist() == [int(sums[stop]) for stop in fast.spent.stops]
    assert fast.costs[-1] == 8
    assert "at most 3 points" in fast.guarantee
    assert fast(x[:0]).shape == (0, 3)
    assert not fast.train().training
    answers = fast(x)
    last = fast.spent.stops == len(fast.costs) - 1
    torch.testing.assert_close(answers[last], model(x)[last], rtol=1e-4, atol=1e-5)


def test_the_stem_is_run_once(net):
    _, fast, x = net
    assert fast.stem is not None
    calls = []
    hook = fast.stem.register_forward_hook(lambda *_: calls.append(1))
    fast(x)
    hook.remove()
    assert len(fast.forms) > 1
    assert len(calls) == 1


def test_forms_that_are_named(net):
    model, _, x = net
    fast = ad.Anytime(model, [x], max_drop=10.0, forms=["euler x 1", ("midpoint", 2)])
    assert fast.names == ("euler x 1", "midpoint x 2", "as trained")
    assert "answered otherwise" in fast.guarantee


def test_impossible_requests(net):
    model, _, x = net
    y = torch.zeros(len(x), dtype=torch.int64)
    with pytest.raises(ad.DataError, match=r"give at least \d+ examples"):
        ad.Anytime(model, [(x[:50], y[:50])], max_drop=0.5)
    for drop in (0, -1.0, 1e-20, 1e-310, 100.0, float("nan"), float("inf")):
        with pytest.raises(ad.ConfigError, match="points above 0"):
            ad.Anytime(model, [(x, y)], max_drop=drop)
    for confidence in (0.0, 5e-324, 1.0, 1 - 1e-16, float("nan")):
        with pytest.raises(ad.ConfigError, match="between 0 and 1"):
            ad.Anytime(model, [(x, y)], confidence=confidence)
    with pytest.raises(ad.ConfigError, match="such as 'midpoint x 2'"):
        ad.Anytime(model, [(x, y)], forms=["midpoint"])
    with pytest.raises(ad.DataError, match=r"empty|given"):
        ad.Anytime(model, [])
    with pytest.raises(ad.ConfigError, match="whole numbers"):
        ad.Anytime(model, [(x, torch.rand(len(x)))])
    assert needed(0.5, 0.95) == 598


class Named(nn.Module):
    """Answers a mapping; `scale` may be left out, as tracing cannot tell."""

    def __init__(self, **block):
        super().__init__()
        torch.manual_seed(1)
        self.block = ad.ContinuousBlock(lambda: ad.units.MLP(2), "linear", 3, **block)
        self.last = nn.Linear(2, 3)

    def forward(self, x, scale=None):
        x = self.block(x) if scale is None else self.block(x) * scale
        return {"logits": self.last(x), "x": x}


def labelled(model, *inputs):
    with torch.no_grad():
        return model(*inputs)["logits"].argmax(-1)


def test_models_by_keyword_that_answer_a_mapping(capfd):
    model, x, scale = Named(scheme="midpoint", steps=6).eval(), torch.randn(700, 2), 0.5 + torch.rand(700, 1)
    batch = {"x": x[:600], "scale": scale[:600], "labels": labelled(model, x[:600], scale[:600])}
    fast = ad.Anytime(model, [batch], max_drop=5.0)
    together = fast(scale=scale[600:], x=x[600:])
    alone = torch.cat([fast(x[i : i + 1], scale[i : i + 1]) for i in range(600, 700)])
    torch.testing.assert_close(together, alone, rtol=1e-5, atol=1e-5)
    with pytest.raises(ad.ShapeError, match="calibrated with 2 inputs, got 1"):
        fast(x)
    with pytest.raises(ad.ShapeError, match="all by keyword"):
        fast(x, scale=scale)
    fast = ad.Anytime(model, [(x[:600], labelled(model, x[:600]))], max_drop=5.0)
    found = fast(x[600:])
    last = fast.spent.stops == len(fast.costs) - 1
    torch.testing.assert_close(found[last], model(x[600:])["logits"][last], rtol=1e-4, atol=1e-5)
    assert "Error" not in capfd.readouterr().err


def test_every_example_has_its_own_evaluations_where_the_finest_form_has_steps_for_each():
    model = Named(scheme="dopri54", per_example=True, rtol=1e-4).double().eval()
    x = 3 * torch.randn(900, 2, dtype=torch.float64)
    fast = ad.Anytime(model, [(x[:600], labelled(model, x[:600]))], max_drop=5.0, forms=["euler x 1"])
    fast(x[600:])
    together = fast.spent.evaluations
    for i in range(600, 640):
        fast(x[i : i + 1])
        assert fast.spent.evaluations.item() == together[i - 600]


def test_one_score_stands_for_two_classes():
    model = nn.Sequential(ad.ContinuousBlock(lambda: ad.units.MLP(2), "linear", 3, steps=8), nn.Linear(2, 1)).eval()
    x = torch.randn(600, 2)
    with torch.no_grad():
        y = (model(x) > 0).long().squeeze(1)
    assert ad.Anytime(model, [(x, y)], max_drop=5.0)(x).shape == (600, 1)
    with pytest.raises(ad.ConfigError, match="labels are 0 to 2, but there are 2 classes"):
        ad.Anytime(model, [(x, y.clone().fill_(2).index_fill_(0, torch.tensor([0]), 0))], max_drop=5.0)


def test_predict_anytime(capsys, tmp_path):
    config = tiny("data.limit=200", "data.validation=300", "model.options.steps=8")
    run = train(config, tmp_path / "run", None)
    images = tmp_path / "images.npy"
    np.save(images, np.zeros((3, 1, 8, 8), dtype=np.float32))
    code, out, _ = run_command(
        capsys, "predict", str(run.folder), str(images), "--anytime", "--max-drop", "5", "--json"
    )
    assert code == 0
    told = json.loads(out)
    assert told["anytime"]["finest"] == 16
    assert all(entry["evaluations"] >= 1 for entry in told["predictions"][str(images)])
    bare = train(tiny("data.validation=0"), tmp_path / "bare", None)
    (exported := bare.folder.parent / "net.onnx").touch()
    assert_refused(run_command(capsys, "predict", exported, images, "--anytime"), 2, "needs a run", "exported file")
    refused = run_command(capsys, "predict", str(bare.folder), str(images), "--anytime")
    assert_refused(refused, 3, "no validation part")
