"""How rough weights are over depth (ContinuousNet, Fig 8)."""

from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from anydepth import artifact
from anydepth.runs.checkpoint_files import manifests, read_checkpoint
from anydepth.runs.folder import open_run
from anydepth.runs.progress import Watch
from anydepth.surgery.blocks import blocks_of

LINES = 6
"""Weights of the first convolution that are drawn."""


def kernels_of(model: nn.Module) -> list[Tensor]:
    """The convolutions' weights of all blocks, each (K, out, in, height, width)."""
    stored = (block.stored(name).detach() for block in blocks_of(model).values() for name in block.lifted)
    return [tensor for tensor in stored if tensor.dim() == 5]


def roughness(tensors: list[Tensor]) -> float:
    """sum_k |w_k+1 - w_k| over the mean over k of |w_k|, each summed over all weights."""
    way = sum(float(tensor.diff(dim=0).abs().sum()) for tensor in tensors)
    return way / sum(float(tensor.abs().sum()) / len(tensor) for tensor in tensors)


def over_depth(kernels: list[Tensor]) -> dict[str, Any]:
    """Roughness, and some weights of the first convolution over depth."""
    flat = kernels[0].flatten(1)
    places = torch.linspace(0, flat.shape[1] - 1, LINES).round().long()
    return {"roughness": roughness(kernels), "lines": flat[:, places].T.tolist()}


class Stages(Watch):
    """Notes the weights of a run as they are just before every refinement, in files of their own."""

    def __init__(self, run: Path, notes: Path):
        self.run, self.notes = run, notes

    def event(self, line: dict[str, Any]) -> None:
        if line["kind"] == "refine":
            newest = manifests(self.run)[0]  # written before the model grew
            tensors = read_checkpoint(newest, open_run(self.run).record_hash()).tensors
            kernels = [tensor for name, tensor in tensors.items() if name.startswith("model/") and tensor.dim() == 5]
            artifact.write_json(self.notes / f"{line['step']:09d}.json", over_depth(kernels))

    def noted(self) -> list[dict[str, Any]]:
        """One for every refinement, in order."""
        return [artifact.read_json(path) for path in sorted(self.notes.glob("*.json"))]
