"""Hostile files: everything that another program, or an enemy, can put under our names is refused quickly."""

import json
import os
import pickle
import struct
import time
import zipfile
from contextlib import suppress
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import anydepth as ad
from anydepth import artifact
from anydepth.artifact.writing import staged
from anydepth.block.form import weights_of
from anydepth.errors import AnydepthError, ConfigError, ModelFileError
from anydepth.runs.config import read_config
from anydepth.runs.folder import open_run
from command import assert_refused, run_command
from crashing import Crash, stopped_at


class Bomb:
    """Makes a file when it is unpickled."""

    def __init__(self, path):
        self.path = str(path)

    def __reduce__(self):
        return open, (self.path, "w")


@cache
def saved():
    """The files of a small model."""
    with TemporaryDirectory() as folder:
        ad.save(model(), folder)
        return {path.name: path.read_bytes() for path in Path(folder).iterdir()}


def saved_in(folder):
    for name, content in saved().items():
        (folder / name).write_bytes(content)
    return folder


def model():
    return ad.build("image", channels=[4], image=[1, 8, 8], pool=4, basis="linear", size=2, steps=2)


@pytest.fixture
def folder(tmp_path):
    return ad.save(model(), tmp_path / "model")


def described(folder, **changes):
    """Replace parts of a description and seal it again, as an enemy would."""
    path = folder / "model.json"
    values = {name: value for name, value in json.loads(path.read_text()).items() if name != "seal"}
    path.write_bytes(artifact.json_bytes(artifact.sealed(values | changes), compact=True))


def put_tensors(folder, content, **changes):
    """Put a tensor file there with the right hash."""
    (folder / "model.safetensors").write_bytes(content)
    described(folder, sha256=artifact.digest(content), **changes)


def raw(header, data=b""):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def with_names(folder, *names):
    entries = (
        f'{json.dumps(n)}:{{"dtype":"F32","shape":[1],"data_offsets":[{4 * i},{4 * i + 4}]}}'
        for i, n in enumerate(names)
    )
    content = raw(f"{{{','.join(entries)}}}".encode(), bytes(4 * len(names)))
    put_tensors(folder, content, tensors={name: ["float32", 1] for name in names})


def architecture(folder, **config):
    values = json.loads((folder / "model.json").read_text())["architecture"]
    described(folder, architecture={"model": values["model"], "config": values["config"] | config})


def blocks(folder, edit):
    values = json.loads((folder / "model.json").read_text())["blocks"]
    described(folder, blocks=json.loads(edit(json.dumps(values))))


def nan_weights(folder):
    tensors = {name: t.clone() for name, t in weights_of(model()).items()}
    tensors["classifier.bias"][0] = float("nan")
    put_tensors(folder, artifact.pack_tensors(tensors))


def other_shapes(folder):
    tensors = {name: t.clone() for name, t in weights_of(model()).items()}
    tensors["classifier.bias"] = torch.zeros(11)
    put_tensors(folder, artifact.pack_tensors(tensors), tensors=artifact.describe_tensors(tensors))


def zipped(path, folder):
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("../outside", "x")


def link(name, target):
    def make(folder):
        (folder / name).unlink()
        (folder / name).symlink_to(target)

    return make


def pipe(folder):
    (folder / "model.safetensors").unlink()
    os.mkfifo(folder / "model.safetensors")


def huge_file(folder):
    with open(folder / "model.safetensors", "wb") as file:
        file.truncate(2**40)


def huge_json(folder):
    with open(folder / "model.json", "wb") as file:
        file.truncate(2**36)


def repeated(folder):
    text = (folder / "model.json").read_text()
    (folder / "model.json").write_text(text.replace('"version": 1', '"version": 1, "version": 1'))


def repeated_tensor(folder):
    entry = '"a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}'
    put_tensors(folder, raw(f"{{{entry}, {entry}}}".encode(), bytes(4)), tensors={"a": ["float32", 1]})


def overlapping(folder):
    header = {n: {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]} for n in "ab"}
    put_tensors(folder, raw(header, bytes(8)), tensors={n: ["float32", 1] for n in "ab"})


HOSTILE = {
    "pickle as tensors": lambda f: put_tensors(f, pickle.dumps(Bomb(f.parent / "outside"))),
    "pickle as description": lambda f: (f / "model.json").write_bytes(pickle.dumps(Bomb(f.parent / "outside"))),
    "zip as tensors": lambda f: zipped(f / "model.safetensors", f),
    "zip as description": lambda f: zipped(f / "model.json", f),
    "torch file": lambda f: torch.save(model().state_dict(), f / "model.safetensors"),
    "a header of 100 MB": lambda f: put_tensors(f, raw(b" " * 100 * 2**20), tensors={}),
    "a header without end": lambda f: put_tensors(f, struct.pack("<Q", 2**63) + b"{}", tensors={}),
    "200,000 tensors": lambda f: with_names(f, *map(str, range(200_000))),
    "200,000 described tensors": lambda f: described(f, tensors={str(i): ["float32", 1] for i in range(200_000)}),
    "repeated name": repeated,
    "repeated tensor": repeated_tensor,
    "overlapping tensors": overlapping,
    "wrong shapes": other_shapes,
    "not a number": nan_weights,
    "parent folder": lambda f: with_names(f, "../../outside"),
    "absolute path": lambda f: with_names(f, "/outside"),
    "control characters": lambda f: with_names(f, "a\x1b[2Jb"),
    "no character": lambda f: with_names(f, "a\x00b"),
    "long name": lambda f: with_names(f, "a" * 100_000),
    "link to tensors": link("model.safetensors", "/dev/zero"),
    "link to description": link("model.json", "/etc/hostname"),
    "pipe": pipe,
    "a terabyte": huge_file,
    "a description of 64 GB": huge_json,
    "enormous shape": lambda f: described(f, tensors={"a": ["float32", 2**47, 2**47]}),
    "negative shape": lambda f: described(f, tensors={"a": ["float32", -1]}),
    "odd dtype": lambda f: described(f, tensors={"a": ["object", 1]}),
    "odd tensors": lambda f: described(f, tensors={"a": 3}),
    "wide network": lambda f: architecture(f, channels=[10**9]),
    "wide classifier": lambda f: architecture(f, classes=10**9),
    "many blocks": lambda f: architecture(f, channels=[4] * 100_000),
    "large basis": lambda f: architecture(f, size=10**9),
    "largest basis": lambda f: architecture(f, size=4096, channels=[512]),
    "many steps": lambda f: architecture(f, steps=10**12),
    "million steps": lambda f: architecture(f, steps=10**6),
    "solver with a million steps": lambda f: blocks(f, lambda t: t.replace('"steps": 2', '"steps": 1000000')),
    "million times": lambda f: blocks(f, lambda t: t.replace('"steps": 2', f'"steps": {json.dumps(["0"] * 10**6)}')),
    "a hundred thousand steps": lambda f: blocks(f, lambda t: t.replace('"steps": 2', '"steps": 100000')),
    "long times": lambda f: blocks(f, lambda t: t.replace('"steps": 2', '"steps": ["0", "%s", "1"]' % ("1" * 2000))),
    "many dimensions": lambda f: described(f, tensors={"a": ["float32", *[2**47] * 200_000]}),
    "odd dtype list": lambda f: described(f, tensors={"a": [[1], 1]}),
    "number without end": lambda f: (f / "model.json").write_text(
        (f / "model.json").read_text().replace('"version": 1', '"version": 1e400')
    ),
    "many repeats": lambda f: (f / "model.json").write_text(
        "{" + ", ".join(f'"{i}": 1' for i in range(400_000)) + ', "399999": 1}'
    ),
    "nested config": lambda f: architecture(f, options={"a": [[[[[[]]]]]]}),
    "giant number": lambda f: architecture(f, channels=[10**4000]),
    "unknown option": lambda f: architecture(f, __class__="x"),
    "unknown model": lambda f: described(f, architecture={"model": "os.system", "config": {}}),
    "odd architecture": lambda f: described(f, architecture={"model": ["image"], "config": 3}),
    "newer": lambda f: described(f, version=2),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_hostile_models_are_refused_quickly_and_leave_no_trace(case, folder):
    HOSTILE[case](folder)
    before = sorted(folder.parent.iterdir())
    began = time.process_time()
    with pytest.raises(ModelFileError) as caught:
        ad.load(folder)
    assert time.process_time() - began < 5, "below 1 s on an idle machine; here others may be busy"
    assert "\n" not in str(caught.value)
    assert str(caught.value).isprintable()
    assert sorted(folder.parent.iterdir()) == before


def test_weights_that_are_not_finite_can_be_looked_at(folder):
    nan_weights(folder)
    assert ad.load(folder, allow_nonfinite=True).classifier.bias[0].isnan()


@pytest.mark.parametrize(
    "point", ["voucher staged", ".safetensors renamed", ".json renamed", ".safetensors half written"]
)
def test_a_kill_while_saving_over_a_model_leaves_a_whole_one(point, tmp_path):
    old, new = model(), model()
    with torch.no_grad():
        new.classifier.bias.fill_(7.0)
    ad.save(old, tmp_path)
    artifact.watchers.append(stopped_at(point, 1))
    try:
        with pytest.raises(Crash):
            ad.save(new, tmp_path)
    finally:
        artifact.watchers.pop()
    found = ad.load(tmp_path).classifier.bias
    assert torch.equal(found, old.classifier.bias) or torch.equal(found, new.classifier.bias)
    ad.save(new, tmp_path)
    assert torch.equal(ad.load(tmp_path).classifier.bias, new.classifier.bias)
    assert not staged(tmp_path / "model.json").exists()


FUZZ = settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)


@pytest.mark.fuzz
@pytest.mark.filterwarnings("ignore::anydepth.errors.AnydepthWarning")  # of a unit by another name
@FUZZ
@given(data=st.data())
def test_any_part_of_a_description_may_be_anything(data, fuzzed):
    folder = saved_in(fuzzed)
    values = json.loads((folder / "model.json").read_text())
    place, key = values, "seal"
    for _ in range(data.draw(st.integers(1, 6))):
        if not isinstance(place, (dict, list)) or not place:
            break
        keys = list(place) if isinstance(place, dict) else list(range(len(place)))
        key = data.draw(st.sampled_from(keys))
        inner = place[key]
        if not isinstance(inner, (dict, list)) or not inner:
            break
        if data.draw(st.booleans()):
            place = inner
    if isinstance(place, (dict, list)) and (
        key in place if isinstance(place, dict) else isinstance(key, int) and key < len(place)
    ):
        place[key] = data.draw(JSON)
    values.pop("seal", None)
    try:
        (folder / "model.json").write_text(json.dumps(artifact.sealed(values)))
    except AnydepthError:
        return
    with suppress(ModelFileError):
        ad.load(folder)


@pytest.mark.fuzz
@FUZZ
@given(content=st.binary(max_size=300))
def test_any_bytes_may_be_a_model_file(content, fuzzed):
    folder = saved_in(fuzzed)
    put_tensors(folder, content)
    with pytest.raises(ModelFileError):
        ad.load(folder)
    (folder / "model.json").write_bytes(content)
    with pytest.raises(ModelFileError):
        ad.load(folder)


@pytest.mark.fuzz
@FUZZ
@given(values=JSON | st.fixed_dictionaries({"data": JSON, "model": JSON, "optimizer": JSON, "training": JSON}))
def test_any_json_may_be_a_config(values):
    with suppress(ConfigError):
        read_config(values)


@pytest.mark.fuzz
@FUZZ
@given(content=st.binary(max_size=200) | st.text(max_size=200).map(str.encode))
def test_any_bytes_may_be_a_run_file(content, fuzzed):
    folder = fuzzed
    (folder / "run.json").write_bytes(content)
    with pytest.raises(ModelFileError):
        open_run(folder)


def test_names_cannot_steer_the_terminal(folder):
    values = json.loads((folder / "model.json").read_text())["blocks"]
    described(folder, blocks={"\x1b]0;owned\x07x": values["blocks.0"]})
    with pytest.raises(ModelFileError) as caught:
        ad.load(folder)
    assert str(caught.value).isprintable()


def test_a_hostile_run_is_refused_on_the_command_line(folder, capsys, tmp_path):
    (folder / "run.json").symlink_to("/dev/zero")
    assert_refused(run_command(capsys, "evaluate", folder), 4, "link")
