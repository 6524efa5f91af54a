"""The campaign: declared nets, resumed after any kill, skipped when done; and the plain ResNet it compares with."""

import json
import signal
import time
from contextlib import nullcontext

import pytest
import torch

from anydepth.errors import NumericalError
from anydepth.surgery.store import load, save
from anydepth.zoo.models.resnet import ResNet
from anydepth_papers.campaign import campaign as campaign_run
from anydepth_papers.campaign.campaign import train_net
from anydepth_papers.campaign.declared import nets
from anydepth_papers.campaign.status import share_done, state_of
from anydepth_papers.nets.image_nets import evaluations_of, packed, unpacked
from anydepth_papers.nets.resnets import as_blocks, shortened, skipped
from processes import Started
from tiny_net import tiny

SMALL = {"channels": [4, 6], "image": [1, 8, 8], "pool": 2, "classes": 3}


@pytest.fixture
def resnet(request):
    """A ResNet whose running statistics are not those of the start."""
    torch.manual_seed(0)
    net = ResNet(**SMALL, **request.param)
    net.train()(torch.randn(16, 1, 8, 8))
    return net.eval()


@pytest.mark.parametrize("resnet", [{"layers": 1}, {"layers": 5}, {"layers": 3, "survival": 0.5}], indirect=True)
def test_the_plain_resnet_is_euler_with_constants(resnet):
    x = torch.randn(16, 1, 8, 8)
    torch.testing.assert_close(as_blocks(resnet)(x), resnet(x), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("resnet", [{"layers": 5}, {"layers": 4, "survival": 0.5}], indirect=True)
def test_shortened_resnets(resnet):
    x = torch.randn(16, 1, 8, 8)
    layers = resnet.config["layers"]
    for way, whole in shortened(resnet, layers).items():
        if way != "projected":
            torch.testing.assert_close(whole(x), resnet(x), rtol=1e-5, atol=1e-5)
    for count in (1, 2):
        for way, short in shortened(resnet, count).items():
            assert short(x).isfinite().all(), way
            assert evaluations_of(short) == 2 * count, way
    first = skipped(resnet, 1)
    assert torch.equal(first.stages[1][0].conv1.weight, resnet.stages[1][0].conv1.weight)
    assert first.chances == resnet.chances[::layers]
    merged = shortened(resnet, 1)["merged"].blocks[0]
    mean = torch.stack([unit.conv1.weight for unit in resnet.stages[0]]).mean(0)
    torch.testing.assert_close(merged.unit.conv1.weight[0], mean)


def test_answers_are_kept_as_text():
    for right in ([True, False, True] * 7, [], [False]):
        assert unpacked(packed(right)) == right


def test_stochastic_depth_skips_by_its_chances_and_scales_in_eval():
    net = ResNet(**SMALL, layers=2, survival=0.5)
    assert net.chances == [0.875, 0.75, 0.625, 0.5]
    ran = torch.zeros(4)
    for number, unit in enumerate(unit for stage in net.stages for unit in stage):
        unit.register_forward_hook(lambda *_, n=number: ran.__setitem__(n, ran[n] + 1))
    torch.manual_seed(0)
    net.train()
    for _ in range(400):
        net(torch.randn(2, 1, 8, 8))
    torch.testing.assert_close(ran / 400, torch.tensor(net.chances), rtol=0, atol=0.08)  # 3 standard deviations
    stage, x = net.stages[0], torch.randn(2, 4, 8, 8)
    net.eval()
    torch.testing.assert_close(net.residual(stage[0], 0.875, x), x + 0.875 * stage[0](x))


@pytest.mark.parametrize("wrong", [{"layers": 0}, {"survival": 0.0}, {"survival": 1.5}])
def test_a_resnet_that_cannot_be_is_refused(wrong):
    with pytest.raises(ValueError, match="layers >= 1 and survival"):
        ResNet(**SMALL | wrong)


def test_a_resnet_is_saved_and_loaded(tmp_path):
    net = ResNet(**SMALL, layers=2, survival=0.7).eval()
    x = torch.randn(2, 1, 8, 8)
    assert torch.equal(load(save(net, tmp_path / "net")).eval()(x), net(x))


def test_declared_nets_have_names_of_their_own_and_one_recipe():
    declared = nets()
    assert len({net.name for net in declared}) == len(declared)
    recipes = {json.dumps(net.config().plain() | {"seed": 0, "model": 0, "refine": 0}) for net in declared}
    assert len(recipes) == 1
    assert [net.title for net in declared[:6]] == [net.title for net in declared[6:12]]  # seed by seed


def test_work_done_grows_with_the_steps():
    grown, fixed = (next(net for net in nets() if net.grows is grows) for grows in (True, False))
    assert share_done(fixed, 27) == share_done(grown, 27) == 1
    assert share_done(fixed, 9) == pytest.approx(1 / 3)
    assert share_done(grown, 15) == pytest.approx(15 * 2 / (15 * 2 + 6 * 3 + 3 * 5 + 3 * 9))


def test_a_net_is_trained_noted_and_skipped(tmp_path, monkeypatch):
    monkeypatch.setattr(campaign_run, "nets", lambda: (tiny("a"), tiny("b")))
    monkeypatch.setattr(campaign_run.os, "nice", lambda _: 0)
    assert state_of(tiny("a"), tmp_path).word == "waiting"
    assert len(campaign_run.campaign(tmp_path, None, lambda _: nullcontext())) == 2
    state = state_of(tiny("a"), tmp_path)
    assert state.word == "done"
    assert "test_accuracy" in state.figures
    assert json.loads((tmp_path / "a-0" / "commits.json").read_text())["commits"]
    assert campaign_run.campaign(tmp_path, None, lambda _: nullcontext()) == []


def test_a_net_that_diverges_is_noted_and_the_others_go_on(tmp_path, monkeypatch):
    def train(config, folder, *rest, **options):
        if folder.name == "bad-0":
            raise NumericalError("the loss is nan")
        return run_to_the_end(config, folder, *rest, **options)

    run_to_the_end = campaign_run.train
    monkeypatch.setattr(campaign_run, "train", train)
    monkeypatch.setattr(campaign_run, "nets", lambda: (tiny("bad"), tiny()))
    monkeypatch.setattr(campaign_run.os, "nice", lambda _: 0)
    campaign_run.campaign(tmp_path, None, lambda _: nullcontext())
    state = state_of(tiny("bad"), tmp_path)
    assert (state.word, state.figures["error"]) == ("failed", "the loss is nan")
    assert state_of(tiny(), tmp_path).word == "done"


def test_killed_twice_and_resumed_it_is_the_same_net(tmp_path):
    """Stochastic depth included: its draws are those of the training step."""
    whole, killed, told = tmp_path / "whole", tmp_path / "killed", tmp_path / "told"
    Started(told, train_net, tiny(), whole, None).communicate()
    for wanted in (1, 2):
        process = Started(told, train_net, tiny(), killed, None)
        until = time.monotonic() + 60
        metrics = killed / "metrics.jsonl"
        while process.poll() is None and time.monotonic() < until:
            if metrics.exists() and metrics.read_text().count('"kind": "epoch"') >= wanted:
                process.kill()
                break
            time.sleep(0.005)
        process.communicate()
        assert process.returncode == -signal.SIGKILL
    last = Started(told, train_net, tiny(), killed, None)
    last.communicate()
    assert last.returncode == 0
    assert (killed / "model.safetensors").read_bytes() == (whole / "model.safetensors").read_bytes()
