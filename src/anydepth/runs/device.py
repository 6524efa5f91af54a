"""Where a run computes, and in which precision."""

import sys
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from subprocess import run

import torch

from anydepth.errors import ConfigError
from anydepth.runs.config import RunConfig, TrainingSettings


def device_of(config: RunConfig) -> torch.device:
    has_cuda = torch.cuda.is_available()
    if config.device == "cuda" and not has_cuda:
        raise ConfigError("device is 'cuda', but PyTorch finds no CUDA device; use device=cpu or auto")
    return torch.device("cuda" if has_cuda and config.device != "cpu" else "cpu")


def precision_of(training: TrainingSettings, device: torch.device) -> AbstractContextManager:
    """Autocast for bfloat16, else nothing; a fresh one for every use."""
    if training.precision == "bfloat16":
        _check_bfloat16(device)
        return torch.autocast(device.type, torch.bfloat16)
    return nullcontext()


_PROBE = """
import torch
from torch import nn
model = nn.Sequential(nn.Conv2d(8, 16, 3), nn.Flatten(), nn.Linear(16 * 36, 64), nn.Linear(64, 10))
with torch.autocast("cpu", torch.bfloat16):
    model(torch.randn(64, 8, 8, 8)).float().sum().backward()
"""


@cache
def _check_bfloat16(device: torch.device) -> None:
    """Try it in a process of its own: where the processor lacks what it promises, that process dies."""
    if device.type == "cpu" and run([sys.executable, "-c", _PROBE], capture_output=True, check=False).returncode:
        raise ConfigError("bfloat16 does not work on this machine's processor; use training.precision=float32")
