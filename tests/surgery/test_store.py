"""Saving and loading: what comes back, and what is refused."""

import json
from fractions import Fraction

import pytest
import torch
from torch import nn

import anydepth as ad
from anydepth import artifact
from anydepth.depth.bases import BASES
from anydepth.errors import AnydepthWarning, ConfigError, ModelFileError, StorageError
from small_units import Dense


def sequential(basis="linear", size=3, **options):
    return nn.Sequential(nn.Linear(6, 4), ad.ContinuousBlock(Dense, basis, size, **options), nn.Linear(4, 2))


@pytest.mark.parametrize("name", BASES.names())
def test_into_a_model_of_another_size_basis_and_solver(name, tmp_path):
    model = sequential(name, 4, scheme="midpoint", steps=5)
    x = torch.randn(8, 6)
    model(x)
    ad.refine(model)
    ad.save(model, tmp_path / "m")
    other = sequential("constant", 1, scheme="rk4", steps=2)
    assert ad.load(tmp_path / "m", into=other) is other
    assert torch.equal(other.eval()(x), model.eval()(x))
    assert repr(other[1]) == repr(model[1])
    assert other[1].history == model[1].history


def test_mixed_weights_knots_and_times_come_back(tmp_path):
    weights = {"linear.*": ad.make_basis("linear", knots=[0, "1/3", 1]), "*": ("constant", 2)}
    model = ad.ContinuousBlock(Dense, weights=weights, steps=[0, 0.3, 1], scale=2.5)
    ad.save(model, tmp_path / "m")
    other = ad.load(tmp_path / "m", into=ad.ContinuousBlock(Dense, scale=2.5))
    assert other.functions == model.functions
    assert other.grid == model.grid


def test_registered_models_are_built_again(tmp_path):
    model = ad.build("image", channels=[4, 6], image=[1, 8, 8], pool=4, basis="linear", size=2).double()
    x = torch.randn(4, 1, 8, 8, dtype=torch.float64)
    model(x)
    ad.refine(model)
    ad.save(model, tmp_path / "m")
    again = ad.load(tmp_path / "m")
    assert torch.equal(again.eval()(x), model.eval()(x))
    assert all(p.requires_grad for p in again.parameters())
    small = ad.compress(again, basis="constant", size=2, steps=2)
    ad.save(small, tmp_path / "s")
    assert torch.equal(ad.load(tmp_path / "s").eval()(x), small.eval()(x))


def test_saving_again_replaces_whole_files(tmp_path):
    model = sequential()
    ad.save(model, tmp_path)
    ad.refine(model)
    ad.save(model, tmp_path)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["model.json", "model.safetensors"]
    assert ad.load(tmp_path, into=sequential())[1].size == 5


def edit(key, value):
    def damage(folder):
        path = folder / "model.json"
        described = json.loads(path.read_text())
        described[key] = value(described[key]) if callable(value) else value
        if key != "seal":
            described = artifact.sealed(described)
        path.write_text(json.dumps(described))

    return damage


def overwrite(name, content):
    return lambda folder: (folder / name).write_bytes(content)


def flip(folder):
    path = folder / "model.safetensors"
    content = bytearray(path.read_bytes())
    content[-3] ^= 1
    path.write_bytes(bytes(content))


def block(key, value):
    return edit("blocks", lambda blocks: {"1": blocks["1"] | {key: value}})


DAMAGE = {
    "no description": (lambda folder: (folder / "model.json").unlink(), "no file"),
    "no tensors": (lambda folder: (folder / "model.safetensors").unlink(), "no file"),
    "empty description": (overwrite("model.json", b""), "not JSON"),
    "pickle as description": (overwrite("model.json", b"\x80\x04\x95\x10\x00"), "not JSON"),
    "deep description": (overwrite("model.json", b"[" * 100_000), "not JSON"),
    "a list": (overwrite("model.json", b"[]"), "expected an object"),
    "another program's": (overwrite("model.json", b'{"format": "other"}'), "not an anydepth model"),
    "newer": (edit("version", 99), "version 99"),
    "no hash": (edit("sha256", None), "lacks 'sha256'"),
    "one bit": (flip, "SHA-256"),
    "truncated": (overwrite("model.safetensors", b"\x00" * 40), "fewer than"),
    "other blocks": (edit("blocks", lambda blocks: {"7": blocks["1"]}), "blocks 7"),
    "other scale": (block("scale", "3"), "scale 3"),
    "unknown scheme": (block("solver", {"scheme": "rk5", "steps": 3}), "unknown scheme"),
    "adaptive with steps": (block("solver", {"scheme": "dopri54", "steps": 3}), "adaptive"),
    "bad steps": (block("solver", {"scheme": "rk4", "steps": -4}), "steps"),
    "odd solver": (block("solver", {"scheme": "rk4", "speed": 4}), "does not describe"),
    "odd weights": (block("weights", {"linear.weight": {"basis": "linear", "size": 3}}), "tensors"),
    "no weights": (block("weights", None), "does not describe"),
    "bad history": (block("history", [1]), "does not describe"),
    "bad basis": (
        edit("blocks", lambda b: json.loads(json.dumps(b).replace('"linear", "size"', '"hat", "size"'))),
        "unknown basis",
    ),
    "edited": (edit("seal", "0" * 64), "checksum"),
    "endless number": (block("solver", {"scheme": "rk4", "steps": ["0", "1e-300000000", "1"]}), "time"),
    "other time": (block("time", True), "time True"),
    "wrong size": (
        edit("blocks", lambda b: json.loads(json.dumps(b).replace('"size": 3', '"size": 2'))),
        "shape",
    ),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_damaged_and_foreign_files_are_refused_and_the_model_is_unharmed(damage, tmp_path):
    ad.save(sequential(), tmp_path)
    spoil, says = DAMAGE[damage]
    spoil(tmp_path)
    model = sequential("constant", 2)
    before = {k: v.clone() for k, v in model.state_dict().items()}
    solver = repr(model)
    with pytest.raises(ModelFileError, match=says) as caught:
        ad.load(tmp_path, into=model)
    assert "\n" not in str(caught.value)
    assert all(torch.equal(before[k], v) for k, v in model.state_dict().items())
    assert repr(model) == solver


def test_models_that_do_not_fit(tmp_path):
    ad.save(sequential(), tmp_path)
    with pytest.raises(ModelFileError, match="into=model"):
        ad.load(tmp_path)
    wide = nn.Sequential(nn.Linear(6, 8), ad.ContinuousBlock(lambda: Dense(8)), nn.Linear(8, 2))
    with pytest.raises(ModelFileError, match="shape"):
        ad.load(tmp_path, into=wide)
    longer = nn.Sequential(*sequential(), nn.Linear(2, 2))
    with pytest.raises(ModelFileError, match=r"missing 3\.bias"):
        ad.load(tmp_path, into=longer)


def test_an_unwritable_place_is_a_storage_error(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match="cannot make folder"):
        ad.save(sequential(), tmp_path / "file" / "inside")


def test_another_unit_with_the_same_tensors_is_pointed_out(tmp_path):
    class Other(Dense):
        pass

    ad.save(ad.ContinuousBlock(Dense, "linear", 3), tmp_path)
    with pytest.warns(AnydepthWarning, match="saved with unit Dense"):
        ad.load(tmp_path, into=ad.ContinuousBlock(Other, "linear", 3))


def test_a_save_that_fails_leaves_the_old_one(tmp_path):
    good = sequential()
    ad.save(good, tmp_path)
    bad = ad.build("image", channels=[4], image=[1, 8, 8], scale=Fraction(1, 3))
    with pytest.raises(ConfigError, match="JSON"):
        ad.save(bad, tmp_path)
    ad.load(tmp_path, into=sequential())
    with torch.no_grad():
        good[1].unit.linear.weight[0, 0, 0] = float("nan")
    ad.refine(good)
    ad.save(good, tmp_path)
    with pytest.raises(ModelFileError, match="not finite"):
        ad.load(tmp_path, into=sequential())
    again = ad.load(tmp_path, into=sequential(), allow_nonfinite=True)
    assert again[1].history[0].operation == "refine"


def test_shared_tensors_and_shared_blocks_are_resized_on_loading(tmp_path):
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(3, 3), nn.Linear(3, 3)
            self.b.weight = self.a.weight

        def forward(self, x):
            return self.b(self.a(x).tanh())

    def twice(size):
        block = ad.ContinuousBlock(Tied, "constant", size)
        return nn.Sequential(block, nn.Tanh(), block)

    model, x = twice(4), torch.randn(2, 3)
    ad.save(model, tmp_path)
    again = ad.load(tmp_path, into=twice(2))
    assert torch.equal(again(x), model(x))
    assert again[0].unit.a.weight is again[2].unit.b.weight
