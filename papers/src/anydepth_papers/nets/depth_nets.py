"""Nets of the studies of any-depth training and of smoothing: small enough for a few minutes each."""

from typing import Any

from anydepth.runs.config import RunConfig, read_config

HATS, CONSTANTS = "hats, any depth", "constants, any depth"
NO_DISTILL, NO_SANDWICH = "hats, labels only", "hats, no sandwich"
GROWN, STALL = "hats, grown", "hats, grown on a stall"
LONGER, TIED, KINETIC, DROPPED = "hats, trained longer", "constants, tied start", "constants, kinetic", "LayerDrop"
RESNETS = {1: "ResNet-1", 2: "ResNet-2", 4: "ResNet-4", 8: "ResNet-8"}
N = 8
"""Steps of every net that is not a specialist."""
SURVIVAL = 0.5
"""Of the last unit, in the net with LayerDrop; of the others it is higher."""
KINETIC_FACTOR = 0.03
"""Of the kinetic penalty; fixed beforehand, without a trial."""
SMOKE_IMAGES = {"data": {"name": "digits", "limit": 64, "validation": 32}, "channels": [2, 2], "pool": 4, "crop": 0}

_HATS: dict[str, Any] = {"weights": {"*running*": ["constant", N], "*": ["linear", 5]}}
"""Five hats; batch statistics have a constant for every step, which five hats cannot follow."""
_SMALLEST: dict[str, Any] = {"weights": {"*running*": ["constant", 1], "*": ["linear", 1]}, "steps": 1}
_WITHOUT: dict[str, Any] = {"any_depth": None}
NETS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    HATS: (_HATS, {"any_depth": {}}),
    CONSTANTS: ({}, {"any_depth": {}}),
    NO_DISTILL: (_HATS, {"any_depth": {"distill": 0.0}}),
    NO_SANDWICH: (_HATS, {"any_depth": {"sandwich": False}}),
    GROWN: (_SMALLEST, {}),
    STALL: (_SMALLEST, {}),
    LONGER: (_HATS, {"longer": True}),
    TIED: ({"init": "shared"}, {}),
    KINETIC: ({}, {"penalty_kinetic": KINETIC_FACTOR}),
    DROPPED: ({"survival": SURVIVAL}, {}),
    **{name: ({"size": n, "steps": n, "scale": float(n)}, {}) for n, name in RESNETS.items()},
}
"""What is changed in the options of the model, and in the training: else a ResNet of 8 units as a block."""


def depth_config(name: str, seed: int, settings: dict[str, Any]) -> RunConfig:
    """A net's config: all nets of a study train on the same data, for as many steps but for `trained longer`."""
    options, training = NETS[name]
    training = dict(training)
    steps = settings["longer"] if training.pop("longer", False) else settings["steps"]
    shape = {"channels": settings["channels"], "pool": settings["pool"]}
    if name == DROPPED:
        model = {"name": "resnet", "options": {**shape, "layers": N, **options}}
    else:
        block = {
            **({} if "weights" in options else {"basis": "constant", "size": N}),
            "steps": N,
            "scheme": "euler",
            "scale": float(N),
            "first_stitch": False,
        }
        model = {"name": "image", "options": {**shape, **block, **options}}
    return read_config(
        {
            "seed": seed,
            "data": settings["data"] | {"crop": settings["crop"], "flip": settings.get("flip", False)},
            "model": model,
            "optimizer": {"name": "sgd", "lr": settings.get("lr", 0.1), "weight_decay": 5e-4},
            "schedule": {"name": "cosine", "warmup": settings["warmup"]},
            "training": {"steps": steps, "batch": settings["batch"], "clip": 5.0, **training},
            "refine": _growth(name, settings),
            "evaluation": {"every": 1 if name == STALL else 1000, "test": False},
        }
    )


def _growth(name: str, settings: dict[str, Any]) -> dict[str, Any]:
    """Hats 1, 2, 3, 5 with 1, 2, 4, 8 steps and statistics: at set steps, or when the validation loss stalls."""
    if name == GROWN:
        return {"at": list(settings["grows"]), "unit": "step"}
    if name == STALL:
        return {"when": "stall", "patience": 1, "least_gain": 0.05, "most": 3}
    return {}
