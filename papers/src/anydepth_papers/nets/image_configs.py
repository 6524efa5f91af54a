"""Configs of the image experiments: a scale gives data, epochs and widths, an experiment the rest."""

from collections.abc import Sequence
from typing import Any

from anydepth.runs.config import RunConfig, read_config


def image_config(seed: int, settings: dict[str, Any], refine_at: Sequence[int], /, **options: Any) -> RunConfig:
    """SGD with a cosine schedule; the settings are data, epochs, batch, warmup, channels and pool."""
    net = {"channels": settings["channels"], "pool": settings["pool"], "first_stitch": False, **options}
    return read_config(
        {
            "seed": seed,
            "data": settings["data"],
            "model": {"name": "image", "options": net},
            "optimizer": {"name": "sgd", "lr": 0.1, "weight_decay": 5e-4},
            "schedule": {"name": "cosine", "warmup": settings["warmup"]},
            "training": {"epochs": settings["epochs"], "batch": settings["batch"]},
            "refine": {"at": list(refine_at)},
        }
    )
