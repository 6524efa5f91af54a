"""Accelerate: states of blocks that have been refined are loaded with their forms, and optimisers follow.

Refining needs nothing: `ad.refine(accelerator.unwrap_model(model), optimizer=optimizer)` looks through the wrappers.
"""

from pathlib import Path
from typing import TYPE_CHECKING

import torch
from safetensors import safe_open
from torch import Tensor, nn

from anydepth.block.form import is_form
from anydepth.errors import ModelFileError
from anydepth.surgery.blocks import blocks_in
from anydepth.surgery.loading import adopt_forms

if TYPE_CHECKING:
    from accelerate import Accelerator  # pyright: ignore[reportMissingImports]
    from torch.utils.hooks import RemovableHandle


def follow_forms(accelerator: "Accelerator") -> "RemovableHandle":
    """Make `accelerator.load_state` give blocks the forms of the state before weights and moments are loaded.

    Accelerate makes optimisers first and loads then; without this, they would hold parameters that are gone. Gives the
    handle that removes it again.
    """

    def adopt(models: list[nn.Module], folder: str) -> None:
        for i, model in enumerate(models):
            if blocks_in(model):
                forms = _forms_in(Path(folder), f"_{i}" if i else "")
                adopt_forms(model, forms, folder, accelerator._optimizers)

    return accelerator.register_load_state_pre_hook(adopt)


def _forms_in(folder: Path, ending: str) -> dict[str, Tensor]:
    """The forms of the blocks of one model in a state of Accelerate."""
    path = folder / f"model{ending}.safetensors"
    if path.exists():
        with safe_open(path, "pt") as kept:
            return {key: kept.get_tensor(key) for key in kept.keys() if is_form(key)}  # noqa: SIM118
    path = folder / f"pytorch_model{ending}.bin"
    if not path.exists():
        raise ModelFileError(f"{folder} holds no weights of Accelerate; expected model{ending}.safetensors")
    return {key: value for key, value in torch.load(path, weights_only=True).items() if is_form(key)}
