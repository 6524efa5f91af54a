"""A block's form as a tensor of its state dict: functions, solver, scale; what weights alone do not tell.

Canonical JSON with a checksum, as bytes in a uint8 tensor, so that whatever keeps state dicts keeps it: `torch.save`,
safetensors, Lightning, Accelerate, distributed checkpoints. It is no buffer: those are broadcast and averaged.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from hashlib import sha256

import numpy as np
import torch
from torch import Tensor, nn

from anydepth.errors import ModelFileError
from anydepth.solve.solver import DescribedSolver

KEY = "_extra_state"
"""What PyTorch calls a module's entry in a state dict that is no parameter and no buffer."""
FORMAT, VERSION = "anydepth-form", 1
MOST_BYTES, MOST_STEPS, MOST_ENTRIES, LONGEST_TEXT = 2**20, 16_384, 4_096, 1_000
"""What a file may ask for."""


@dataclass(frozen=True)
class SavedForm:
    """What a block is besides its tensors, as JSON values."""

    functions: dict[str, dict[str, object]]
    solver: DescribedSolver
    scale: str
    time: bool

    def encode(self) -> Tensor:
        told = {"format": FORMAT, "version": VERSION, **asdict(self)}
        content = canonical({"form": told, "sha256": sha256(canonical(told)).hexdigest()})
        return torch.from_numpy(np.frombuffer(content, dtype=np.uint8).copy())

    @classmethod
    def decode(cls, tensor: object) -> "SavedForm":
        """Inverse of `encode`, also of a tensor that was converted to floating point on its way."""
        try:
            told = json.loads(_bytes(tensor))
            form, checksum = told["form"], told["sha256"]
            if sha256(canonical(form)).hexdigest() != checksum:
                raise ValueError("the checksum differs")
            if form.pop("format") != FORMAT or form.pop("version") != VERSION:
                raise ValueError(f"expected format {FORMAT} {VERSION}; use the anydepth that wrote it")
            check_modest(form)
            return cls(**form)
        except (ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
            raise ModelFileError(f"the state dict holds a form of a block that cannot be read: {error}") from error


def canonical(value: object) -> bytes:
    """JSON with sorted keys and without spaces: equal values have equal bytes."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()


def _bytes(tensor: object) -> bytes:
    if not isinstance(tensor, Tensor) or tensor.is_meta or tensor.dim() != 1 or not 0 < tensor.numel() <= MOST_BYTES:
        raise ValueError("expected a one-dimensional uint8 tensor")
    values = tensor.detach().cpu()
    if values.dtype != torch.uint8:
        exact = values.double().nan_to_num(-1)
        if not bool(((exact == exact.round()) & (exact >= 0) & (exact < 256)).all()):
            raise ValueError("its values are not bytes")
        values = exact.to(torch.uint8)
    return values.contiguous().numpy().tobytes()


def check_modest(value: object, key: str = "") -> None:
    """Refuse descriptions that would take ages to build, however few tensors they come with."""
    if isinstance(value, int) and key == "steps" and value > MOST_STEPS:
        raise ModelFileError(
            f"the file asks for {value:,} steps, at most {MOST_STEPS:,} are taken; set them after loading"
        )
    if isinstance(value, str) and len(value) > LONGEST_TEXT:
        raise ModelFileError(
            f"the file has a text {key!r:.40} of {len(value):,} characters, at most {LONGEST_TEXT} fit"
        )
    if isinstance(value, list):
        limit = MOST_STEPS if key == "steps" else MOST_ENTRIES
        if len(value) > limit:
            raise ModelFileError(
                f"the file has a list {key!r:.40} of {len(value):,} entries, at most {limit:,} are taken"
            )
        for entry in value:
            check_modest(entry, key)
    if isinstance(value, dict):
        for name, entry in value.items():
            if name not in ("tensors", "errors"):
                check_modest(entry, name)


def is_form(key: str) -> bool:
    """Whether a key of a state dict is that of a form."""
    return key == KEY or key.endswith(f".{KEY}")


def weights_of(model: nn.Module) -> dict[str, Tensor]:
    """A model's state dict without the forms of its blocks."""
    return {name: tensor for name, tensor in model.state_dict().items() if not is_form(name)}


def forms_of(model: nn.Module) -> dict[str, Tensor]:
    """The forms alone, by their keys."""
    return {name: tensor for name, tensor in model.state_dict().items() if is_form(name)}


def form_under(state_dict: Mapping[str, object], prefix: str) -> SavedForm | None:
    """The form of the block with this prefix, if the state dict has one."""
    key = prefix + KEY
    return SavedForm.decode(state_dict[key]) if key in state_dict else None
