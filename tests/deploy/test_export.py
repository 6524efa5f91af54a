"""Exported files: the same answers as the run, whoever runs them, and one line for everything that goes wrong."""

import json
import subprocess
import sys
from itertools import product
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
import torch
from PIL import Image

import anydepth as ad
from anydepth.data.facts import Facts
from anydepth.data.sources.digits import Digits
from anydepth.deploy.export import parity
from anydepth.deploy.export.export import call_of, export
from anydepth.deploy.export.formats import FORMATS, traced
from anydepth.deploy.export.parity import compare
from anydepth.deploy.export.ports import drawn, inputs_of, output_of
from anydepth.depth.schemes import fixed_schemes
from anydepth.errors import ModelFileError
from anydepth.runs.folder import open_run, save_derived
from anydepth.train.training import train
from command import assert_refused, run_command
from small_runs import tiny, tiny_tagger, write_treebank
from small_units import trained

IMAGES = Facts(task="classify", kind="images", shape=(1, 8, 8), labels=tuple("abcdefghij"), mean=(8.0,), std=(6.0,))
SENTENCES = Facts(task="tag", kind="sentences", shape=(), labels=tuple("ABCDE"), words=tuple(map(str, range(30))))
VECTORS = Facts(task="regress", kind="vectors", shape=(3,))
FACTS = {"image": IMAGES, "tagger": SENTENCES, "flow": VECTORS}
SMALL = {
    "image": {"channels": [4], "pool": 4, "basis": "linear", "size": 2},
    "tagger": {"width": 8, "size": 3, "basis": "linear", "options": {"heads": 2}},
    "flow": {"size": 2, "options": {"hidden": 8}},
}


def made(name, scheme, steps):
    """A small model with weights and statistics that are not those of the beginning, and its facts."""
    facts = FACTS[name]
    model = ad.build(name, **SMALL[name], **facts.model_options(), scheme=scheme, steps=steps)
    return trained(model, *drawn(facts, torch.float32, 8)), facts


def parity_of(model, facts, suffix):
    frozen, dtype = ad.freeze(model), torch.float32
    ports, inputs = inputs_of(facts, dtype), drawn(facts, dtype, 3)
    form = FORMATS[suffix]
    content = form.pack(traced(frozen, ports, inputs), ports, output_of(facts, frozen(*inputs)))
    return compare(call_of(model), call_of(frozen), form.open(content, ports), facts, (dtype, dtype))


@pytest.mark.parametrize("scheme", fixed_schemes())
@pytest.mark.parametrize("name", ["image", "tagger", pytest.param("flow", marks=pytest.mark.slow)])
def test_frozen_says_what_the_model_says_at_every_batch(name, scheme):
    """To 1e-5, with the same predictions."""
    model, facts = made(name, scheme, 1)
    for steps in (1, 3, 4):
        ad.set_solver(model, steps=steps)
        frozen = ad.freeze(model)
        for batch in parity.BATCHES:
            inputs = drawn(facts, torch.float32, batch, seed=batch)
            with torch.no_grad():
                found = parity.gap("frozen", batch, model(*inputs), frozen(*inputs), parity.FROZEN, bool(facts.labels))
            assert found.holds, str(found)


FEW = ("flow", "heun", 3, ".pt2")
"""The others are exported by way of runs, below."""
REST = [case for case in product(FACTS, fixed_schemes(), (1, 3, 4), FORMATS) if case != FEW]


@pytest.mark.parametrize(
    ("name", "scheme", "steps", "suffix"), [FEW, *(pytest.param(*case, marks=pytest.mark.soak) for case in REST)]
)
def test_exported_says_what_the_model_says_at_every_batch(name, scheme, steps, suffix):
    """To 1e-4 with the same predictions; what is frozen, to 1e-5. `make soak` takes every scheme."""
    found = parity_of(*made(name, scheme, steps), suffix)
    assert found.holds, found.reason
    assert {gap.batch for gap in found.gaps} == {1, 7, 256}


class Place(NamedTuple):
    root: Path
    digits: Path
    tagger: Path


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Two runs, images and text."""
    root = tmp_path_factory.mktemp("exports")
    train(tiny("model.options.size=2"), root / "digits")
    write_treebank(root / "data" / "treebank")
    train(tiny_tagger(), root / "tagger", root / "data")
    pixels = Digits(root).read("test").pixels
    np.save(root / "many.npy", pixels[:20])
    (root / "scans").mkdir()
    for i in range(3):
        Image.fromarray(pixels[i, 0]).save(root / "scans" / f"{i}.png")
    (root / "scans" / "notes.md").write_text("no image")
    (root / "text.txt").write_text("1a 2b never-seen. 3c\n4d\n")
    (root / "more.txt").write_text("5a\n")
    return Place(root, root / "digits", root / "tagger")


@pytest.fixture(scope="module")
def exported(place):
    """Every run in every format, written once."""
    files = {}
    for run in (place.digits, place.tagger):
        for suffix in FORMATS:
            files[run.name, suffix] = place.root / f"{run.name}{suffix}"
            assert export(open_run(run), files[run.name, suffix]).parity.holds
    return files


def answers(capsys, model, *files):
    done = run_command(capsys, "predict", model, *files, "--json")
    assert done.code == 0, done.err
    return json.loads(done.out)["predictions"]


@pytest.mark.parametrize("way", ["frozen", *FORMATS])
def test_run_frozen_and_exported_predict_the_same(place, exported, capsys, way):
    cases = {
        place.digits: (place.root / "many.npy", place.root / "scans", place.root / "scans" / "0.png"),
        place.tagger: (place.root / "text.txt", place.root / "more.txt"),
    }
    for run, files in cases.items():
        model = (run, "--frozen") if way == "frozen" else (exported[run.name, way],)
        wanted, found = answers(capsys, run, *files), answers(capsys, *model, *files)
        assert list(found) == list(wanted)
        for file, entries in wanted.items():
            assert len(found[file]) == len(entries)
            for mine, theirs in zip(words_of(entries), words_of(found[file]), strict=True):
                assert theirs["label"] == mine["label"]
                assert theirs["probability"] == pytest.approx(mine["probability"], abs=1e-4)


def words_of(entries):
    return [word for entry in entries for word in entry.get("words", [entry])]


def test_files_share_batches_and_folders_are_opened(place, capsys):
    scans = sorted((place.root / "scans").glob("*.png"))
    together = answers(capsys, place.digits, place.root / "scans", scans[0])
    assert list(together) == [str(scan) for scan in scans]
    many = answers(capsys, place.digits, place.root / "many.npy")[str(place.root / "many.npy")]
    for scan, entry in zip(scans, many, strict=False):
        (alone,) = answers(capsys, place.digits, scan)[str(scan)]
        assert together[str(scan)][0]["label"] == alone["label"] == entry["label"]
    (place.root / "empty").mkdir(exist_ok=True)
    assert_refused(run_command(capsys, "predict", place.digits, place.root / "empty"), 3, "no file", ".npy")


ALONE = """
import sys
for name in ("anydepth", {missing}): sys.modules[name] = None
import json, numpy as np
sheet = json.load(open({file!r} + ".json"))
pixels = np.load({pixels!r}).astype(np.float32)
mean, std = (np.array(sheet["facts"][key], np.float32).reshape(-1, 1, 1) for key in ("mean", "std"))
x = (pixels - mean) / std
{run}
print(json.dumps([sheet["facts"]["labels"][i] for i in scores.argmax(-1)]))
"""
RUN = {
    ".pt2": "import torch\nscores = torch.export.load({file!r}).module()(torch.from_numpy(x)).detach().numpy()",
    ".onnx": "import onnxruntime\nscores = onnxruntime.InferenceSession({file!r}).run(None, {{'images': x}})[0]",
}


@pytest.mark.parametrize("suffix", FORMATS)
def test_an_exported_file_and_its_sheet_are_enough_without_anydepth(place, exported, capsys, suffix):
    """ONNX needs no torch either."""
    file, pixels = exported["digits", suffix], place.root / "many.npy"
    missing = "'torch'" if suffix == ".onnx" else "'onnx'"
    code = ALONE.format(missing=missing, file=str(file), pixels=str(pixels), run=RUN[suffix].format(file=str(file)))
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    wanted = answers(capsys, place.digits, pixels)[str(pixels)]
    assert json.loads(done.stdout) == [entry["label"] for entry in wanted]


def test_the_sheet_says_what_the_file_takes(place, exported):
    sheet = json.loads(Path(f"{exported['digits', '.onnx']}.json").read_text())
    assert (sheet["kind"], sheet["opset"], sheet["solver"]) == ("ONNX", 20, ["midpoint x 2"])
    assert sheet["inputs"] == [{"name": "images", "dtype": "float32", "shape": ["batch", 1, 8, 8]}]
    assert sheet["output"] == {"name": "scores", "dtype": "float32", "shape": ["batch", 10]}
    assert sheet["model_sha256"] == open_run(place.digits).model_hash()
    assert sheet["facts"]["mean"] == list(open_run(place.digits).facts.mean)
    assert set(sheet["versions"]) == {"anydepth", "torch", "onnx", "onnxruntime", "onnxscript"}
    import onnxruntime

    session = onnxruntime.InferenceSession(exported["tagger", ".onnx"])
    found = [(port.name, port.type, port.shape) for port in session.get_inputs()]
    assert found == [("tokens", "tensor(int64)", ["batch", "words"]), ("mask", "tensor(bool)", ["batch", "words"])]


def test_export_freezes_the_solver_that_is_asked_for(place, capsys, tmp_path):
    to = tmp_path / "new" / "net.pt2"
    words = ("--scheme", "euler", "--steps", "3", "--no-check")
    done = run_command(capsys, "export", place.digits, "--to", to, *words, "--json")
    found = json.loads(done.out)
    assert (done.code, found["solver"], found["parity"], found["file"]) == (0, ["euler x 3"], None, str(to))
    assert done.err == ""
    people = run_command(capsys, "export", place.digits, "--to", to)
    assert people.out == ""
    assert "midpoint x 2" in people.err
    assert "parity: off by at most" in people.err


def test_a_file_that_says_something_else_is_a_verdict_of_no(place, capsys, tmp_path, monkeypatch):
    monkeypatch.setattr(parity, "EXPORTED", -1.0)
    to = tmp_path / "net.pt2"
    assert_refused(run_command(capsys, "export", place.digits, "--to", to), 1, "parity failed", "exported, batch 1")
    assert not json.loads(Path(f"{to}.json").read_text())["parity"]["holds"]
    assert_refused(run_command(capsys, "predict", to, place.root / "many.npy"), 4, "failed its parity check")


def test_other_predictions_fail_and_ties_do_not():
    wanted, other = torch.tensor([[1.0, 1.00002], [3.0, 0.0]]), torch.tensor([[1.00001, 1.0], [3.0, 0.0]])
    assert not parity.gap("exported", 2, wanted, other, 1e-4, True).holds
    tied = torch.tensor([[1.0, 1.0000001], [3.0, 0.0]])
    assert parity.gap("exported", 2, tied, other, 1e-4, True).holds
    assert parity.gap("exported", 2, wanted, other, 1e-4, False).holds
    assert not parity.gap("exported", 2, wanted, other * float("nan"), 1e-4, False).holds


def test_what_cannot_be_exported_is_refused(place, capsys, tmp_path, monkeypatch):
    def refused(code, *says, to="net.pt2", run=place.digits, words=()):
        assert_refused(run_command(capsys, "export", run, "--to", tmp_path / to, *words), code, *says)

    refused(2, "suffix '.tflite'", ".onnx, .pt2", to="net.tflite")
    refused(2, "adaptive", "--steps", words=("--scheme", "dopri54"))
    refused(2, "steps", words=("--steps", "0"))
    refused(4, "no run", run=tmp_path / "none")
    (tmp_path / "file").write_text("")
    refused(6, "cannot make folder", to="file/net.pt2")
    (tmp_path / "folder.pt2").mkdir()
    refused(6, "it is a folder", to="folder.pt2")
    torn = open_run(place.digits)
    save_derived(torn, tmp_path / "torn", torn.model(), {})
    content = (tmp_path / "torn" / "model.safetensors").read_bytes()
    (tmp_path / "torn" / "model.safetensors").write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    refused(4, "SHA-256", run=tmp_path / "torn")
    monkeypatch.setattr("anydepth.deploy.export.formats.find_spec", lambda name: None)
    refused(2, "onnx, onnxruntime, onnxscript", "pip install 'anydepth[onnx]'", to="net.onnx")
    assert not list(tmp_path.glob("net*"))


def test_damaged_exports_are_refused(place, exported, capsys, tmp_path, monkeypatch):
    whole = exported["digits", ".pt2"]
    content, sheet = whole.read_bytes(), Path(f"{whole}.json").read_text()
    other = json.loads(sheet) | {"seal": None, "facts": None}

    def refused(model, beside, code, *says):
        (tmp_path / "net.pt2").write_bytes(model)
        (tmp_path / "net.pt2.json").write_text(beside)
        assert_refused(run_command(capsys, "predict", tmp_path / "net.pt2", place.root / "many.npy"), code, *says)

    refused(content[:-9], sheet, 4, "is not the file", "export it again")
    refused(content, sheet[:-9], 4, "not JSON")
    refused(content, sheet.replace('"label', '"lebal'), 4, "checksum")
    refused(content, json.dumps(other), 4, "checksum")
    refused(content, "{}", 4, "format")
    (tmp_path / "net.pt2.json").unlink()
    assert_refused(run_command(capsys, "predict", tmp_path / "net.pt2", "x.npy"), 4, "net.pt2.json", "keep both")
    assert_refused(run_command(capsys, "predict", tmp_path / "none.onnx", "x.npy"), 4, "none.onnx")
    assert_refused(run_command(capsys, "predict", whole, "x.npy", "--frozen"), 2, "frozen already")
    assert_refused(run_command(capsys, "predict", whole, place.root / "text.txt"), 3, "text.txt", ".npy")
    for suffix in FORMATS:
        with pytest.raises(ModelFileError, match="cannot load"):
            FORMATS[suffix].open(b"rubbish", ())
    monkeypatch.setattr("anydepth.deploy.export.formats.find_spec", lambda name: None)
    file = exported["digits", ".onnx"]
    assert_refused(run_command(capsys, "predict", file, place.root / "many.npy"), 2, "onnxruntime", "anydepth[onnx]")


@pytest.mark.slow
def test_a_float64_run_is_float32_in_onnx(capsys, tmp_path):
    folder = tmp_path / "run"
    train(tiny("training.precision=float64"), folder)
    assert run_command(capsys, "export", folder, "--to", tmp_path / "net.onnx").code == 0
    assert json.loads((tmp_path / "net.onnx.json").read_text())["inputs"][0]["dtype"] == "float32"
    assert run_command(capsys, "export", folder, "--to", tmp_path / "net.pt2").code == 0
    assert json.loads((tmp_path / "net.pt2.json").read_text())["inputs"][0]["dtype"] == "float64"
