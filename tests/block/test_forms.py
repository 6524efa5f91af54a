"""A state dict carries the form of its blocks, whoever keeps it."""

import copy
import io
from itertools import product

import pytest
import torch
from safetensors.torch import load, save
from torch import nn

import anydepth as ad
from anydepth.block.form import KEY, SavedForm
from anydepth.depth.bases import BASES
from anydepth.depth.schemes import SCHEMES
from anydepth.errors import AnydepthWarning, ConfigError, ModelFileError
from small_units import Dense

FORMS = list(product(BASES.names(), SCHEMES))
X = torch.linspace(-1, 1, 32).view(8, 4)


def by_torch(state):
    file = io.BytesIO()
    torch.save(state, file)
    file.seek(0)
    return torch.load(file, weights_only=True)


WAYS = {"torch": by_torch, "safetensors": lambda state: load(save(dict(state))), "copy": copy.deepcopy}


def net(basis="constant", size=1, **options):
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 4), ad.ContinuousBlock(Dense, basis, size, **options))


def in_form(basis, scheme):
    limits = {"rtol": 1e-3, "atol": 1e-4} if SCHEMES[scheme].is_adaptive else {"steps": [0, 0.3, 1]}
    return net(basis, 4, scheme=scheme, **limits)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(("basis", "scheme"), FORMS)
def test_every_form_makes_the_round_trip(basis, scheme, way):
    model, other = in_form(basis, scheme), net()
    model(X)
    other.load_state_dict(WAYS[way](model.state_dict()))
    assert other[1].solver == model[1].solver
    assert other[1].functions == model[1].functions
    assert torch.equal(other.eval()(X), model.eval()(X))


def test_evolving_weights_make_the_round_trip():
    weights = {"linear.weight": ad.Evolved("network"), "*": ("constant", 1)}
    torch.manual_seed(0)
    model = ad.ContinuousBlock(Dense, weights=weights, steps=2)
    other = ad.ContinuousBlock(Dense, "linear", 2, steps=3)
    other.load_state_dict(by_torch(model.state_dict()))
    assert torch.equal(other.eval()(X), model.eval()(X))


def test_the_form_is_canonical_and_knows_no_history_and_no_gradient_mode():
    model, other = net("linear", 3, steps=2), net("linear", 2, steps=1)
    ad.refine(other, size=3, steps=2)
    ad.set_gradient(other, "checkpoint")
    assert torch.equal(model.state_dict()[f"1.{KEY}"], other.state_dict()[f"1.{KEY}"])
    assert model.state_dict()[f"1.{KEY}"].dtype == torch.uint8


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.int64])
def test_a_form_that_was_converted_decodes(dtype):
    model, other = net("legendre", 3, steps=2), net()
    state = {key: value.to(dtype) if key.endswith(KEY) else value for key, value in model.state_dict().items()}
    other.load_state_dict(state)
    assert other[1].solver == model[1].solver


def broken(change):
    state = net("linear", 3, steps=2).state_dict()
    return {**state, f"1.{KEY}": change(state[f"1.{KEY}"])}


BROKEN = {
    "cut": lambda form: form[:-3],
    "one bit": lambda form: form ^ (torch.arange(len(form)) == 40).to(torch.uint8),
    "not bytes": lambda form: form.float() + 0.5,
    "not a number": lambda form: torch.full((20,), float("nan")),
    "empty": lambda form: form[:0],
    "text": lambda form: "linear",
    "nested": lambda form: torch.tensor(list(b"[" * 100_000), dtype=torch.uint8),
    "other JSON": lambda form: torch.tensor(list(b"[1]"), dtype=torch.uint8),
    "many steps": lambda form: SavedForm({}, {"scheme": "rk4", "steps": 10**9}, "1", False).encode(),
}


@pytest.mark.parametrize("change", BROKEN)
def test_a_broken_form_is_a_typed_error_and_changes_nothing(change):
    model = net()
    with pytest.raises(ModelFileError):
        model.load_state_dict(broken(BROKEN[change]))
    assert model[1].size == 1


def test_another_scale_time_or_unit_is_a_typed_error():
    with pytest.raises(ModelFileError, match="scale"):
        net(scale=2).load_state_dict(net().state_dict())
    with pytest.raises(ModelFileError, match="time"):
        net(time=True).load_state_dict(net().state_dict())
    with pytest.raises(ModelFileError, match="tensors of the unit"):
        nn.Sequential(nn.Linear(4, 4), ad.ContinuousBlock(lambda: nn.Linear(4, 4))).load_state_dict(net().state_dict())


def test_without_a_form_the_present_one_stays_with_a_warning():
    model, other = net("linear", 3, steps=2), net("linear", 2, steps=5)
    state = {key: value for key, value in model.state_dict().items() if not key.endswith(KEY)}
    with pytest.warns(AnydepthWarning, match="form of a block"):
        result = other.load_state_dict(state, strict=True)
    assert not result.missing_keys
    assert (other[1].size, other[1].steps) == (3, 5)


def test_equal_shapes_stay_the_same_parameters():
    model, other = net("legendre", 3, steps=2), net("linear", 3, steps=4)
    before = list(other.parameters())
    optimizer = torch.optim.SGD(other.parameters(), lr=0.1)
    other.load_state_dict(model.state_dict())
    assert all(one is two for one, two in zip(before, other.parameters(), strict=True))
    other(X).sum().backward()
    optimizer.step()


def test_an_optimiser_made_before_is_refused_or_rebound():
    state = net("linear", 3, steps=2).state_dict()
    other = net()
    optimizer = torch.optim.Adam(other.parameters(), lr=0.1)
    other.load_state_dict(state)
    other(X).sum().backward()
    with pytest.raises(ConfigError, match="optimizer=optimizer"):
        optimizer.step()
    other = net()
    optimizer = torch.optim.Adam(other.parameters(), lr=0.1)
    other(X).sum().backward()
    optimizer.step()
    ad.load_state_dict(other, state, optimizer=optimizer)
    before = [p.detach().clone() for p in other.parameters()]
    other(X).square().sum().backward()
    optimizer.step()
    assert all(not torch.equal(a, b) for a, b in zip(before, other.parameters(), strict=True))
    assert [p for group in optimizer.param_groups for p in group["params"]] == list(other.parameters())


@pytest.mark.filterwarnings("ignore")
def test_distributed_checkpoints_restore_into_the_form_that_was_adopted(tmp_path):
    from torch.distributed import checkpoint as dcp

    model, other = net("linear", 3, steps=2), net()
    model(X)
    dcp.save({"model": model.state_dict()}, checkpoint_id=tmp_path / "there", no_dist=True)
    ad.adopt_form(other, tmp_path / "there")
    state = {"model": other.state_dict()}
    dcp.load(state, checkpoint_id=tmp_path / "there", no_dist=True)
    other.load_state_dict(state["model"])
    assert other[1].solver == model[1].solver
    assert torch.equal(other.eval()(X), model.eval()(X))


@pytest.mark.integrations
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("basis", "scheme"), FORMS)
def test_accelerate_keeps_every_form(basis, scheme, tmp_path):
    accelerate = pytest.importorskip("accelerate")
    model, other = in_form(basis, scheme), net()
    model(X)
    accelerate.Accelerator(cpu=True).save_model(model, tmp_path / "kept")
    accelerate.load_checkpoint_in_model(other, tmp_path / "kept")
    assert other[1].solver == model[1].solver
    assert torch.equal(other.eval()(X), model.eval()(X))


def resumed(model, folder):
    """A training step under Accelerate, after the state in the folder if there is one; the state is kept."""
    accelerator = pytest.importorskip("accelerate").Accelerator(cpu=True)
    model, optimizer = accelerator.prepare(model, torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9))
    if folder.exists():
        accelerator.load_state(folder)
    model(X).sum().backward()
    optimizer.step()
    accelerator.save_state(folder)


@pytest.mark.integrations
@pytest.mark.filterwarnings("ignore")
def test_accelerates_resume_is_refused_where_it_would_train_nothing(tmp_path):
    """Accelerate makes the optimiser first and loads then."""
    for _ in range(2):
        resumed(net("linear", 3, steps=2), tmp_path / "state")
    with pytest.raises(ConfigError, match="replaced"):
        resumed(net(), tmp_path / "state")


@pytest.mark.integrations
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("basis", "scheme"), FORMS)
def test_lightning_keeps_every_form(basis, scheme, tmp_path):
    lightning = pytest.importorskip("lightning")

    class Task(lightning.LightningModule):
        def __init__(self, model):
            super().__init__()
            self.model = model

        def training_step(self, batch, _):
            return self.model(batch).square().mean()

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=0.01)

    quiet = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False, "accelerator": "cpu"}
    trainer = lightning.Trainer(max_epochs=1, enable_checkpointing=False, default_root_dir=tmp_path, **quiet)
    task = Task(in_form(basis, scheme))
    trainer.fit(task, torch.utils.data.DataLoader(list(X), batch_size=8))
    trainer.save_checkpoint(tmp_path / "kept.ckpt")
    other = Task.load_from_checkpoint(tmp_path / "kept.ckpt", model=net())
    assert other.model[1].solver == task.model[1].solver
    assert torch.equal(other.model.eval()(X), task.model.eval()(X))
