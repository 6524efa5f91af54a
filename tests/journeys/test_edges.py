"""What a user or the author of a file can cause is one line with its own exit code, and steers no terminal."""

import json
import os
import shutil
import struct
import subprocess
import sys
from io import StringIO

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

import anydepth as ad
from anydepth import artifact
from anydepth.cli.output import PlainConsole
from anydepth.data.dataset import Dataset
from anydepth.data.image_formats import IMAGE_SUFFIXES, PILLOW_FORMATS
from anydepth.deploy.export.export import export
from anydepth.errors import AnydepthError, ConfigError, StorageError, printable
from anydepth.runs.folder import dataset_of, open_run
from anydepth.train.training import train
from command import assert_refused, run_command
from small_runs import tiny, tiny_tagger, write_treebank

ESCAPE = "a\x1b[2J\x1b]0;owned\x07\x9b31m\u202eb\u2028c"


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "plain"
    train(tiny("training.epochs=1", "data.limit=32"), folder)
    return folder


@pytest.fixture
def digit(tmp_path):
    Image.fromarray(np.full((8, 8), 100, np.uint8)).save(tmp_path / "digit.png")
    return tmp_path / "digit.png"


# Devices


def test_devices_pipes_and_streams_are_never_replaced(tmp_path):
    """Root may rename a file over /dev/null, and from then on there is none."""
    os.mkfifo(tmp_path / "pipe.json")
    (tmp_path / "null.json").symlink_to("/dev/null")
    (tmp_path / "out.json").symlink_to("/proc/self/fd/1")
    for name in ("pipe", "null", "out"):
        path = tmp_path / f"{name}.json"
        before = path.lstat()
        for write in (
            lambda path: artifact.write_bytes(path, b"a"),
            lambda path: artifact.write_pair(path, b"a", tmp_path / "voucher.json", b"b"),
            lambda path: artifact.write_pair(tmp_path / "first.json", b"a", path, b"b"),
        ):
            with pytest.raises(StorageError, match="a device, a pipe or a stream"):
                write(path)
        assert path.lstat().st_ino == before.st_ino
    assert {path.name for path in tmp_path.iterdir()} == {"pipe.json", "null.json", "out.json"}


def test_a_table_of_predictions_is_not_put_in_place_of_a_device(run, digit, tmp_path, capsys):
    os.mkfifo(tmp_path / "pipe")
    done = run_command(capsys, "predict", run, digit, "--csv", tmp_path / "pipe", "--json")
    assert_refused(done, 6, "a device, a pipe or a stream")
    assert (tmp_path / "pipe").is_fifo()


# Terminals


def steering(text):
    """Characters that a terminal would act upon; a line's end is none."""
    return [c for c in text if not c.isprintable() and c != "\n"]


@given(st.text())
def test_no_text_steers_the_terminal(text):
    """Whatever is printed, the only control characters are the ends of lines."""
    console = PlainConsole(file=StringIO(), highlight=False)
    with console.capture() as captured:
        console.print(text, markup=False)
    assert steering(captured.get()) == []
    assert steering(printable(text)) == []
    assert steering(str(AnydepthError(text))) == []


def relabelled(run, folder):
    """The run with labels that would steer a terminal, in a folder with such a name."""
    shutil.copytree(run, folder)
    record = json.loads((folder / "run.json").read_text())
    record["facts"]["labels"] = [f"{ESCAPE}{i}" for i in range(10)]
    (folder / "run.json").write_text(json.dumps(record))
    return folder


def test_labels_files_and_runs_cannot_steer_the_terminal(run, digit, tmp_path, capsys):
    hostile = relabelled(run, tmp_path / f"run {ESCAPE}")
    image = shutil.copy(digit, tmp_path / f"{ESCAPE}.png")
    commands = (
        ("predict", hostile, image),
        ("evaluate", hostile),
        ("compress", hostile, "--size", 1, "--out", tmp_path / f"small {ESCAPE}"),
        ("check", hostile, "--examples", 8),
        ("report", hostile, "--examples", 8),
        ("report", tmp_path),
        ("sweep", hostile, "--sizes", 1, "--steps", 1, "--schemes", "euler", "--rounds", 1, "--examples", 8),
        ("evaluate", hostile, "--split", ESCAPE),
        (ESCAPE,),
        ("predict", hostile, f"--{ESCAPE}"),
    )
    for words in commands:
        done = run_command(capsys, *words)
        assert steering(done.err) == [], words
        assert steering(done.out) == [], words
        assert done.code in (0, 1, 2), (words, done.err)
    assert run_command(capsys, "predict", hostile, image).code == 0


def test_a_printed_table_cannot_steer_the_terminal_and_is_exact_elsewhere(run, digit, tmp_path, capsys, monkeypatch):
    hostile = relabelled(run, tmp_path / "hostile")
    image = shutil.copy(digit, tmp_path / os.fsdecode(b"\xff.png"))
    assert "\x1b[2J" in run_command(capsys, "predict", hostile, digit, "--csv", "-").out
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    done = run_command(capsys, "predict", hostile, digit, "--csv", "-")
    assert done.code == 0, done.err
    assert steering(done.out) == []
    done = subprocess.run(
        [sys.executable, "-m", "anydepth", "predict", str(hostile), os.fsencode(image), "--csv", "-"],
        capture_output=True,
    )
    assert done.returncode == 0, done.stderr
    assert b"\xff.png,0," in done.stdout


def test_tags_and_words_cannot_steer_the_terminal(tmp_path, capsys):
    write_treebank(tmp_path / "data" / "treebank", tags=("A\x1b[2J", "B", "C", "D"))
    folder = tmp_path / "run"
    train(tiny_tagger("data.validation=5", "training.steps=1"), folder, tmp_path / "data")
    (tmp_path / "text.txt").write_text("1a \x1b[2J2b 3c.\n")
    done = run_command(capsys, "predict", folder, tmp_path / "text.txt")
    assert done.code == 0, done.err
    assert steering(done.err) == []


def test_warnings_cannot_steer_the_terminal():
    code = (
        "import warnings; from anydepth.cli import main as m; from anydepth.errors import AnydepthWarning\n"
        f"m.app = lambda *a, **k: warnings.warn({ESCAPE!r}, AnydepthWarning)\n"
        "m.main(['list'])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0
    assert steering(done.stderr) == []
    assert len(done.stderr.splitlines()) == 1


# Images


EPS = b"""%!PS-Adobe-3.0 EPSF-3.0
%%BoundingBox: 0 0 8 8
%%EndComments
(/tmp/x) (w) file closefile showpage
%%EOF
"""


def test_only_the_formats_that_are_meant_are_opened(run, tmp_path, capsys, monkeypatch):
    """An EPS file named .png would reach Ghostscript; Pillow's decoder of it must not even be asked."""
    from PIL import EpsImagePlugin

    monkeypatch.setattr(EpsImagePlugin, "Ghostscript", lambda *a, **k: pytest.fail("Ghostscript was started"))
    (tmp_path / "a.png").write_bytes(EPS)
    assert_refused(run_command(capsys, "predict", run, tmp_path / "a.png"), 3, "cannot be read as an image")
    gray = Image.fromarray(np.zeros((8, 8), np.uint8))
    for kind in ("TIFF", "ICO", "PCX", "TGA", "SGI"):
        gray.save(tmp_path / "b.png", format=kind)
        assert_refused(run_command(capsys, "predict", run, tmp_path / "b.png"), 3, "cannot be read as an image")
    for kind, suffix in (("PNG", ".png"), ("JPEG", ".jpeg"), ("BMP", ".bmp"), ("GIF", ".gif"), ("PPM", ".pgm")):
        gray.save(tmp_path / f"c{suffix}", format=kind)
        assert run_command(capsys, "predict", run, tmp_path / f"c{suffix}").code == 0


def test_every_format_is_one_that_pillow_knows():
    Image.init()
    assert set(PILLOW_FORMATS) <= set(Image.OPEN)
    assert not set(PILLOW_FORMATS) & {"EPS", "WMF", "PDF", "FPX", "MIC"}
    assert all(Image.EXTENSION[suffix] in PILLOW_FORMATS for suffix in IMAGE_SUFFIXES)


# Files


def npy(shape, descr="'|u1'"):
    text = f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}"
    head = text.encode().ljust(117) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head + bytes(64)


SHAPES = ["(-1, 1, 8, 8)", "(-1,)", f"({10**30}, 1, 8, 8)", f"({2**62}, 4, 8, 8)", "('a',)", "(True,)", "()", "[1]"]


@pytest.mark.parametrize("shape", SHAPES)
def test_arrays_with_impossible_sizes_are_bad_data(shape, run, tmp_path, capsys):
    (tmp_path / "a.npy").write_bytes(npy(shape))
    assert_refused(run_command(capsys, "predict", run, tmp_path / "a.npy"), 3, "a.npy")


@pytest.mark.parametrize("name", ["model.json", "model.safetensors", "run.json"])
def test_a_folder_in_the_place_of_a_file_is_a_bad_model(name, run, tmp_path, capsys):
    shutil.copytree(run, tmp_path / "run")
    (tmp_path / "run" / name).unlink()
    (tmp_path / "run" / name).mkdir()
    assert_refused(run_command(capsys, "evaluate", tmp_path / "run"), 4, "not a regular file")


@pytest.fixture(scope="module")
def exported(run, tmp_path_factory):
    place = tmp_path_factory.mktemp("exported")
    for suffix in (".onnx", ".pt2"):
        export(open_run(run), place / f"net{suffix}", check=False)
    return place


def test_exported_files_are_answered(exported, digit, capsys):
    for suffix in (".onnx", ".pt2"):
        assert run_command(capsys, "predict", exported / f"net{suffix}", digit).code == 0


PORT = {"name": "images", "dtype": "float32", "shape": ["batch", 1, 8, 8]}
SHEETS = {
    "too few labels": lambda s: s["facts"].update(labels=["a", "b"]),
    "no labels": lambda s: s["facts"].update(labels=[], task="regress"),
    "no inputs": lambda s: s.update(inputs=[]),
    "wrong name of an input": lambda s: s.update(inputs=[PORT | {"name": "x"}]),
    "wrong shape of an input": lambda s: s.update(inputs=[PORT | {"shape": ["batch", 3, 8, 8]}]),
    "two inputs": lambda s: s.update(inputs=[PORT, PORT]),
    "odd dtype": lambda s: s["output"].update(dtype="load"),
    "other dtype": lambda s: s["output"].update(dtype="float64"),
    "few outputs": lambda s: (s["output"].update(shape=["batch", 2]), s["facts"].update(labels=["a", "b"])),
    "no outputs": lambda s: s["output"].update(shape=[]),
}


@pytest.mark.parametrize("suffix", [".onnx", ".pt2"])
@pytest.mark.parametrize("case", SHEETS)
def test_sheets_that_do_not_fit_are_bad_models(case, suffix, exported, digit, tmp_path, capsys):
    name = f"net{suffix}"
    shutil.copy(exported / name, tmp_path / name)
    values = json.loads((exported / f"{name}.json").read_text())
    SHEETS[case](values)
    sheet = artifact.sealed({key: value for key, value in values.items() if key != "seal"})
    (tmp_path / f"{name}.json").write_text(json.dumps(sheet))
    done = run_command(capsys, "predict", tmp_path / name, digit)
    if case == "no labels":
        assert done.code in (0, 4), done.err
    else:
        assert_refused(done, 4, "labels" if case == "few outputs" else name)


def test_a_file_whose_inputs_have_other_names_than_its_sheet_is_a_bad_model(exported, digit, tmp_path, capsys):
    import onnx

    net = onnx.load(exported / "net.onnx")
    for node in net.graph.node:
        node.input[:] = ["other" if name == "images" else name for name in node.input]
    net.graph.input[0].name = "other"
    onnx.save(net, tmp_path / "net.onnx")
    values = json.loads((exported / "net.onnx.json").read_text())
    values["sha256"] = artifact.digest((tmp_path / "net.onnx").read_bytes())
    sheet = artifact.sealed({key: value for key, value in values.items() if key != "seal"})
    (tmp_path / "net.onnx.json").write_text(json.dumps(sheet))
    assert_refused(run_command(capsys, "predict", tmp_path / "net.onnx", digit), 4, "other")


# Folders and outputs


@pytest.mark.parametrize("length", [300, 5000])
def test_names_that_no_disk_takes_are_refused(length, run, tmp_path, capsys):
    name = tmp_path / ("x" * length)
    for words in (
        ("train", "digits", "--out", name),
        ("compress", run, "--size", 1, "--out", name),
        ("export", run, "--no-check", "--to", f"{name}.pt2"),
        ("report", run, "--examples", 1, "--out", name),
        ("evaluate", name),
        ("predict", run, name),
    ):
        done = run_command(capsys, *words)
        assert_refused(done, done.code, "too long")
        assert done.code in (3, 6), words


def test_one_folder_whose_name_is_no_text_does_not_spoil_an_overview(run, tmp_path, capsys):
    shutil.copytree(run, tmp_path / "good")
    bad = os.path.join(os.fsencode(tmp_path), b"bad\xff")
    shutil.copytree(os.fsencode(run), bad)
    with open(os.path.join(bad, b"report.html"), "w") as file:
        file.write("")
    done = run_command(capsys, "report", tmp_path)
    assert done.code == 0, done.err
    page = (tmp_path / "report.html").read_text()
    assert "bad%FF/report.html" in page
    assert "good" in page


def run_process(*words, **pipes):
    program = [sys.executable, "-m", "anydepth", *map(str, words)]
    return subprocess.run(program, text=True, **pipes)


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_a_full_output_is_told_as_that():
    with open("/dev/full", "w") as full:
        done = run_process("data", "path", "--json", stdout=full, stderr=subprocess.PIPE)
        assert done.returncode == 6
        assert done.stderr == "anydepth: cannot read or write: No space left on device; choose another place\n"
        assert run_process("--bogus", stdout=subprocess.PIPE, stderr=full).returncode == 2


def test_a_reader_that_has_gone_is_no_verdict():
    """As in `anydepth predict --json | true`: exit 141, as of a program that the signal ends."""
    for words in (("data", "path", "--json"), ("--help",)):
        read, write = os.pipe()
        os.close(read)
        done = run_process(*words, stdout=write, stderr=subprocess.PIPE)
        os.close(write)
        assert done.returncode == 141
        assert done.stderr == ""


@pytest.mark.parametrize("words", [("--out", ""), ("--out=",), ("--data", ""), ("--out", "a", "")])
def test_empty_words_are_refused(words, run, tmp_path, capsys, monkeypatch):
    """An empty path would be the current folder."""
    monkeypatch.chdir(tmp_path)
    assert_refused(run_command(capsys, "train", "digits", *words), 2, "empty value after")
    assert_refused(run_command(capsys, "compress", run, "--size", 1, *words), 2, "empty value after")
    assert list(tmp_path.iterdir()) == []


# Numbers


@pytest.mark.parametrize("scale", [1e308, -1e308, 1e31, float("inf"), float("nan")])
def test_a_scale_that_no_solver_takes_is_refused(scale):
    with pytest.raises(ConfigError, match="at most 1e\\+30"):
        ad.ContinuousBlock(lambda: torch.nn.Linear(2, 2), scale=scale)


@pytest.mark.filterwarnings("ignore:Initializing zero-element tensors")
@pytest.mark.parametrize("gradient", ["backprop", "checkpoint", "adjoint", "kkt"])
def test_a_unit_without_numbers_is_a_unit(gradient):
    block = ad.ContinuousBlock(lambda: torch.nn.Linear(0, 0), basis="linear", size=2, steps=2, gradient=gradient)
    x = torch.ones(3, 0, requires_grad=True)
    block(x).sum().backward()
    assert ad.refine(block)(x).shape == (3, 0)
    assert ad.freeze(ad.compress(block, size=1))(x).shape == (3, 0)


def test_held_out_examples_are_a_share_below_one_or_a_whole_number(tmp_path):
    with pytest.raises(ConfigError, match="a share must be below 1"):
        tiny("data.validation=1.0")
    with pytest.raises(ConfigError, match="a count a whole number"):
        tiny("data.validation=1.5")
    with pytest.raises(ConfigError, match="a share must be below 1"):
        Dataset("digits", validation=1.0)
    one = tiny("data.validation=1", "training.epochs=1")
    assert len(dataset_of(one, None).part("validation")) == 1
    train(one, tmp_path / "run")
    assert open_run(tmp_path / "run").config == one
    assert tiny("data.validation=20.0") == tiny("data.validation=20")
