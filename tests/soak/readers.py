"""Every reader of files, with whole files to start from; files with a seal are sealed anew after they were changed."""

import json
import warnings
from contextlib import suppress
from functools import cache
from io import BytesIO
from pathlib import Path
from tempfile import mkdtemp

import numpy as np
import torch
from PIL import Image

import anydepth as ad
from anydepth import artifact
from anydepth.data.source import SOURCES
from anydepth.data.sources.cifar import read_records
from anydepth.data.sources.idx import read_idx
from anydepth.data.sources.treebank import read_conllu
from anydepth.deploy.export.sheet import read_export
from anydepth.errors import AnydepthError
from anydepth.runs.checkpoint_files import read_checkpoint
from anydepth.runs.folder import open_run
from anydepth.runs.metrics import read_metrics
from crashing import config, train_and_crash
from journeys.test_hostile import put_tensors, saved, saved_in
from journeys.test_whole import exported
from soak.fuzz import fuzz

MINUTES = 5.0


@cache
def place():
    return Path(mkdtemp(prefix="anydepth-fuzz-"))


@cache
def run():
    folder = place() / "run"
    train_and_crash(folder, config(), ".json renamed", 10)
    return folder


def resealed(content):
    """Changed JSON with a seal that fits, as an enemy would write it; other bytes as they are."""
    with suppress(ValueError, AnydepthError, RecursionError):
        values = json.loads(content)
        if isinstance(values, dict):
            values.pop("seal", None)
            return artifact.json_bytes(artifact.sealed(values), compact=True)
    return content


def model_json(content):
    folder = saved_in(place())
    (folder / "model.json").write_bytes(resealed(content))
    ad.load(folder)


def tensors(content):
    folder = saved_in(place())
    put_tensors(folder, content)
    ad.load(folder)


def run_json(content):
    folder = place() / "record"
    folder.mkdir(exist_ok=True)
    (folder / "run.json").write_bytes(content)
    open_run(folder)


def metrics(content):
    (place() / "metrics.jsonl").write_bytes(content)
    read_metrics(place() / "metrics.jsonl")


def newest():
    return max((run() / "checkpoints").glob("*.json"))


def manifest(content):
    path = newest()
    kept = path.read_bytes()
    try:
        path.write_bytes(resealed(content))
        read_checkpoint(path, open_run(run()).record_hash())
    finally:
        path.write_bytes(kept)


def sheet(content):
    (place() / "net.onnx").write_bytes(b"a")
    (place() / "net.onnx.json").write_bytes(resealed(content))
    read_export(place() / "net.onnx")


def a_sheet():
    found = exported(finished())["a"][1]
    return artifact.json_bytes(artifact.sealed(found.model_dump(mode="json")))


@cache
def finished():
    from anydepth.train.training import train
    from small_runs import tiny

    folder = place() / "finished"
    train(tiny("training.epochs=1"), folder)
    return folder


def idx(content):
    (place() / "images.idx").write_bytes(content)
    read_idx(place() / "images.idx", 3)


def cifar(content):
    (place() / "batch.bin").write_bytes(content)
    read_records(place() / "batch.bin", (10,))


def conllu(content):
    (place() / "a.conllu").write_bytes(content)
    list(read_conllu(place() / "a.conllu", "xpos"))


def own(name, path):
    """A reader of the user's own data, by its name: both parts of it."""
    option = "folder" if path.is_dir() else "file"
    source = SOURCES[name](place(), **{option: str(path)})
    for part in ("train", "test"):
        source.read(part)


def imagefolder(content):
    for label in "ab":
        folder = place() / "pictures" / label
        folder.mkdir(parents=True, exist_ok=True)
        for number in range(4):
            (folder / f"{number}.png").write_bytes(png(8) if number else content)
    own("imagefolder", place() / "pictures")


def csv(content):
    (place() / "table.csv").write_bytes(content)
    own("csv", place() / "table.csv")


def npz(content):
    (place() / "arrays.npz").write_bytes(content)
    own("npz", place() / "arrays.npz")


@cache
def png(size, kind="PNG"):
    file = BytesIO()
    Image.fromarray(np.arange(size * size, dtype=np.uint8).reshape(size, size)).save(file, format=kind)
    return file.getvalue()


def arrays(targets):
    file = BytesIO()
    np.savez(file, x=np.arange(80, dtype=np.float32).reshape(20, 4), y=targets)
    return file.getvalue()


@cache
def block():
    return ad.ContinuousBlock(lambda: torch.nn.Linear(2, 2), basis="linear", size=3, steps=2)


def form(content):
    """The form in a state dict; the block that it is loaded into is thrown away."""
    state = dict(block().state_dict())
    name = next(key for key in state if key.endswith("_extra_state"))
    state[name] = torch.frombuffer(bytearray(content or b" "), dtype=torch.uint8)
    fresh = ad.ContinuousBlock(lambda: torch.nn.Linear(2, 2), basis="linear", size=3, steps=2)
    fresh.load_state_dict(state, strict=False)


def a_form():
    state = block().state_dict()
    return bytes(state[next(key for key in state if key.endswith("_extra_state"))].numpy())


CONLLU = b"# text = a b\n1\ta\t_\tX\tA\t_\t_\t_\t_\t_\n2\tb\t_\tX\tB\t_\t_\t_\t_\t_\n\n"
IDX = bytes((0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0, 2, 0, 0, 0, 2)) + bytes(8)
CSV = b"a,b,label\n" + b"".join(b"%d,%d.5,%s\n" % (i, i, b"yn"[i % 2 : i % 2 + 1]) for i in range(20))
READERS = {
    "model.json": (model_json, lambda: [saved()["model.json"]]),
    "safetensors": (tensors, lambda: [saved()["model.safetensors"]]),
    "run.json": (run_json, lambda: [(run() / "run.json").read_bytes()]),
    "metrics.jsonl": (metrics, lambda: [(run() / "metrics.jsonl").read_bytes()]),
    "checkpoint": (manifest, lambda: [newest().read_bytes()]),
    "sheet of an export": (sheet, lambda: [a_sheet()]),
    "idx": (idx, lambda: [IDX]),
    "CIFAR": (cifar, lambda: [bytes(3073 * 2)]),
    "CoNLL-U": (conllu, lambda: [CONLLU]),
    "imagefolder": (
        imagefolder,
        lambda: [png(8), png(8, "JPEG"), png(8, "GIF"), png(8, "BMP"), png(8, "PPM"), png(8, "WEBP")],
    ),
    "csv": (csv, lambda: [CSV, CSV.replace(b",", b";")]),
    "npz": (npz, lambda: [arrays(y) for y in (np.arange(20) % 2, np.arange(20) / 7, np.array(["a", "b"] * 10))]),
    "form in a state dict": (form, lambda: [a_form()]),
}


def fuzzed(name):
    """A part: a chunk is a minute of one reader, counted in seconds."""

    def run_chunk(number, tries, _work):
        read, seeds = READERS[name]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return fuzz(number, seeds(), read, (AnydepthError,), tries)

    return run_chunk
