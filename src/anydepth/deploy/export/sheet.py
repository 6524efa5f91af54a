"""The JSON file beside an exported model: all that is needed to run it without the run it came from."""

import json
from pathlib import Path
from typing import Self

import torch
from pydantic import BaseModel, ConfigDict, ValidationError, model_validator

from anydepth import artifact
from anydepth.artifact.writing import staged
from anydepth.data.facts import Facts
from anydepth.deploy.export.parity import Parity
from anydepth.deploy.export.ports import Port, inputs_of
from anydepth.errors import ModelFileError

FORMAT, VERSION = "anydepth-export", 1
DTYPES = ("float32", "float64")
"""Of outputs, and of inputs that are numbers."""


class StepsRow(BaseModel):
    """What a number of steps costs and gives, from the run's sweep."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    steps: int
    value: float | None
    latency_ms: float


class Elastic(BaseModel):
    """Of a file whose number of steps is an input, `steps`: one for all blocks, or one for each."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    scheme: str
    blocks: tuple[str, ...]
    least: int
    most: int
    default: int
    """Steps that are taken if none are asked for."""
    metric: str | None = None
    """Of the rows; None: the run was not swept."""
    rows: tuple[StepsRow, ...] = ()

    @model_validator(mode="after")
    def _check_steps(self) -> Self:
        if not 1 <= self.least <= self.default <= self.most:
            raise ValueError(f"it takes {self.least} to {self.most} steps, {self.default} by default")
        return self


class Sheet(BaseModel):
    """The contents of FILE.json."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    format: str = FORMAT
    version: int = VERSION
    kind: str
    """torch.export or ONNX."""
    opset: int | None
    """Of ONNX."""
    sha256: str
    """Of the exported file."""
    model_sha256: str
    """Of the model.json of the run, which holds the hash of its tensors."""
    solver: tuple[str, ...]
    """Of every block: what was frozen."""
    inputs: tuple[Port, ...]
    output: Port
    preparation: str
    """What the inputs need, in words; the numbers are in `facts`: mean, std, words, labels."""
    facts: Facts
    versions: dict[str, str]
    parity: Parity | None
    """None: not compared."""
    elastic: Elastic | None = None
    """None: the number of steps is fixed."""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        """The ports must be those of a model with these facts, or nothing that is given would fit."""
        if self.output.dtype not in DTYPES:
            raise ValueError(f"the output has dtype {self.output.dtype!r:.40}, expected one of {', '.join(DTYPES)}")
        wanted = inputs_of(self.facts, getattr(torch, self.output.dtype))
        if self.inputs != wanted:
            raise ValueError(f"it takes {_told(self.inputs)}, but its facts ask for {_told(wanted)}")
        if self.facts.labels and self.output.shape[-1:] != (len(self.facts.labels),):
            raise ValueError(f"it has {len(self.facts.labels)} labels for outputs of shape {self.output.shape}")
        return self


def _told(ports: tuple[Port, ...]) -> str:
    return ", ".join(f"{port.name} {port.dtype} {port.shape}" for port in ports)[:200] or "nothing"


def sheet_of(path: Path) -> Path:
    """Where the sheet of an exported file is."""
    return path.with_name(f"{path.name}.json")


def write_export(path: Path, content: bytes, sheet: Sheet) -> None:
    """The file and the sheet that vouches for it: both, or those that were there before."""
    voucher = artifact.json_bytes(artifact.sealed(sheet.model_dump(mode="json")))
    artifact.write_pair(path, content, sheet_of(path), voucher)


def read_export(path: Path) -> tuple[bytes, Sheet]:
    """An exported file and its sheet; files that are damaged, or that failed their parity check, are refused."""
    beside, waiting = sheet_of(path), staged(sheet_of(path))
    try:
        content, sheet = _pair(path, beside)
    except ModelFileError:
        if not waiting.exists():
            raise
        content, sheet = _pair(path, waiting)  # of an export that was killed between its two files
    if sheet.parity is not None and not sheet.parity.holds:
        raise ModelFileError(f"{path} failed its parity check when it was exported ({sheet.parity.reason})")
    return content, sheet


def _pair(path: Path, beside: Path) -> tuple[bytes, Sheet]:
    for needed in (path, beside):
        if not needed.exists():
            raise ModelFileError(f"no file {needed}; anydepth export writes a model and, beside it, a .json: keep both")
    sheet = _read(beside)
    content = artifact.read_bytes(path)
    if artifact.digest(content) != sheet.sha256:
        raise ModelFileError(f"{path} is not the file that {beside.name} describes; it is damaged; export it again")
    return content, sheet


def _read(path: Path) -> Sheet:
    values: dict[str, object] = artifact.read_json(path)
    if (values.get("format"), values.get("version")) != (FORMAT, VERSION):
        found = f"{values.get('format')!r:.40}, version {values.get('version')!r:.40}"
        raise ModelFileError(f"{path} is of format {found}; expected {FORMAT!r}, version {VERSION}")
    artifact.check_seal(values, path)
    try:
        return Sheet.model_validate_json(json.dumps({k: v for k, v in values.items() if k != "seal"}))
    except ValidationError as error:
        first = error.errors()[0]
        where, what = ".".join(map(str, first["loc"])), first["msg"].removeprefix("Value error, ")
        told = f"{where}: {what}" if where else what
        raise ModelFileError(f"{path} is damaged: {told}; export the model again") from None
