"""RunConfig: everything that decides a run. Unknown keys and numbers that are not finite are refused."""

import json
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BaseModel, Field, PlainSerializer, ValidationError, WrapValidator, model_validator

from anydepth.data.order import count_or_share
from anydepth.errors import ConfigError, choices
from anydepth.json_values import JsonObject
from anydepth.runs.control import ControlSettings, NoControl
from anydepth.runs.depth_settings import AnyDepthSettings
from anydepth.runs.settings import Count, NotNegative, Seed, Settings, Share, Whole

HeldOut = Annotated[float, Field(ge=0, le=1e9), WrapValidator(count_or_share), PlainSerializer(lambda number: number)]


class DataSettings(Settings):
    name: str
    """A registered dataset."""
    options: JsonObject = Field(default_factory=dict)
    """Options of that dataset."""
    validation: HeldOut | None = None
    """Training examples held out: a whole number, or a share below 1. None: the dataset's own part, else a tenth."""
    split_seed: Seed = 0
    """Decides which examples are held out."""
    limit: Count | None = None
    """Train on so many examples only."""
    crop: Annotated[int, Field(ge=0, le=64)] = 0
    """Shift training images by up to so many pixels."""
    flip: bool = False
    """Mirror training images at random."""
    hide: Annotated[float, Field(ge=0, le=1e6)] = 0.0
    """Show a training word that was seen n times as unknown with probability hide / (hide + n)."""


def _is_gradient_mode(name: str) -> str:
    from anydepth.block.paths import GRADIENTS  # with torch, which reading a config should not need

    if name not in GRADIENTS:
        raise ValueError(f"unknown gradient mode; {choices(name, GRADIENTS)}")
    return name


class ModelSettings(Settings):
    name: str
    """A registered model."""
    options: JsonObject = Field(default_factory=dict)
    """Options of that model; what the data decides (classes, image size) is filled in."""
    gradient: Annotated[str, AfterValidator(_is_gradient_mode)] = "backprop"
    """How gradients pass through the blocks: a mode of the solvers."""
    segment: Count = 1
    """Steps per checkpoint, with gradient "checkpoint"."""


class Optimizer(Settings):
    lr: Annotated[float, Field(gt=0, le=1e6)]
    """Peak learning rate."""
    weight_decay: Annotated[float, Field(ge=0, le=1e6)] = 0.0
    decay: Literal["all", "weights"] = "all"
    """What decays: all parameters, or weights but not biases, norms, coefficients of evolutions and others of rank
    below 2."""


class SGD(Optimizer):
    name: Literal["sgd"] = "sgd"
    momentum: Share = 0.9
    nesterov: bool = False

    @model_validator(mode="after")
    def _nesterov_needs_momentum(self) -> Self:
        if self.nesterov and self.momentum == 0:
            raise ValueError("nesterov needs momentum above 0")
        return self


class Adam(Optimizer):
    name: Literal["adam"] = "adam"
    betas: tuple[Share, Share] = (0.9, 0.999)
    eps: Annotated[float, Field(ge=1e-30, le=1e6)] = 1e-8


class AdamW(Adam):
    name: Literal["adamw"] = "adamw"  # pyright: ignore[reportIncompatibleVariableOverride]


class Schedule(Settings):
    warmup: Whole = 0
    """Steps over which the learning rate rises from zero."""


class Constant(Schedule):
    name: Literal["constant"] = "constant"


class Step(Schedule):
    name: Literal["step"] = "step"
    milestones: tuple[Count, ...]
    """Where the learning rate falls."""
    unit: Literal["epoch", "step"] = "epoch"
    """What the milestones count."""
    factor: Annotated[float, Field(gt=0, le=1)] = 0.1
    """What it is multiplied by there."""


class Cosine(Schedule):
    name: Literal["cosine"] = "cosine"
    final: Annotated[float, Field(ge=0, le=1)] = 0.0
    """Share of the learning rate left at the end."""


class InverseSqrt(Schedule):
    """lr * min(1, step / warmup) / sqrt(max(step, warmup))."""

    name: Literal["inverse_sqrt"] = "inverse_sqrt"
    warmup: Count = 8000  # pyright: ignore[reportIncompatibleVariableOverride]


class TrainingSettings(Settings):
    epochs: Count | None = None
    """Passes over the training part; or give steps."""
    steps: Count | None = None
    """Optimiser steps; or give epochs."""
    batch: Count = 128
    label_smoothing: Share = 0.0
    clip: Annotated[float, Field(ge=1e-12, le=1e12)] | None = None
    """Largest norm of the gradient; a larger one is scaled down."""
    penalty_initial: NotNegative = 0.0
    """Factor on the squares of evolving weights at depth 0, added to the loss."""
    penalty_evolution: NotNegative = 0.0
    """Factor on the squares of the evolution's own parameters, added to the loss."""
    vary_steps: Share | None = None
    """Draw the number of steps in depth anew for every pass, at most this share above or below the model's own: a model
    that meets many grids does not tie itself to one. None: 0.4 under the control `steady`, else 0."""
    any_depth: AnyDepthSettings | None = None
    """Train other forms of the model (fewer steps, smaller sizes) along with it; {} for the usual ones."""
    penalty_kinetic: NotNegative = 0.0
    """Factor on the kinetic energy of the states' paths through the blocks, added to the loss (RNODE)."""
    penalty_roughness: NotNegative = 0.0
    """Factor on the squared differences over depth of the kernels in blocks, added to the loss."""
    ema: Annotated[float, Field(gt=0, lt=1)] | None = None
    """Decay of a moving average of the weights, which then is the trained model."""
    precision: Literal["float32", "bfloat16", "float64"] = "float32"
    """bfloat16: units run under autocast; weights, state and integration stay in float32."""
    channels_last: bool = True
    """Lay images out with the channels innermost, which convolutions on CPUs are faster with."""

    @model_validator(mode="after")
    def _one_way_to_draw(self) -> Self:
        if self.any_depth is not None and self.vary_steps is not None:
            raise ValueError("give either any_depth or vary_steps, and set the other to null")
        return self

    @model_validator(mode="after")
    def _one_length(self) -> Self:
        if (self.epochs is None) == (self.steps is None):
            raise ValueError("give either epochs or steps, and set the other to null")
        return self


class RefineSettings(Settings):
    at: tuple[Count, ...] = ()
    """When the model grows; none: never."""
    unit: Literal["epoch", "step"] = "epoch"
    """What `at` counts."""
    when: Literal["at", "stall"] = "at"
    """At the places of `at`, or whenever the validation loss stalls."""
    patience: Count = 2
    """Validations without a better loss after which it counts as stalled."""
    least_gain: Annotated[float, Field(ge=0, lt=1)] = 0.01
    """Share by which a loss must be lower than the lowest to be better."""
    most: Count = 3
    """How often a model grows at most when its loss stalls."""
    rule: str = "nested"
    """A registered rule for the next size and number of steps."""
    options: JsonObject = Field(default_factory=dict)
    """Options of that rule."""
    method: Literal["interpolate", "project"] = "interpolate"
    """How the weights are moved to the new size."""
    moments: Literal["carry", "reset"] = "carry"
    """What becomes of the optimiser's moments of the parameters that grow."""

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if list(self.at) != sorted(set(self.at)):
            raise ValueError("`at` must increase")
        if self.when == "stall" and self.at:
            raise ValueError("`at` is for when=at, but when is stall; set `at` to [] or when to at")
        return self

    @property
    def count(self) -> int:
        """How often the model grows, at most."""
        return len(self.at) if self.when == "at" else self.most


class EvaluationSettings(Settings):
    every: Count = 1
    """Epochs between validations."""
    batch: Count = 500
    test: bool = True
    """Read the test part once, at the very end."""


class RunConfig(Settings):
    """One training run."""

    seed: Seed = 0
    """Decides initial weights, order of examples and augmentation."""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    threads: Annotated[int, Field(ge=1, le=1024)] | None = None
    """Threads of a process; None: as many as PyTorch takes."""
    log_every: Count = 50
    """Steps between lines of metrics."""
    checkpoint_minutes: NotNegative = 2.0
    """Longest time between checkpoints; one is also written around refinements and at the end."""
    data: DataSettings
    model: ModelSettings
    optimizer: Annotated[SGD | Adam | AdamW, Field(discriminator="name")]
    schedule: Annotated[Constant | Step | Cosine | InverseSqrt, Field(discriminator="name")] = Constant()
    training: TrainingSettings
    refine: RefineSettings = RefineSettings()
    control: Annotated[ControlSettings, Field(discriminator="name")] = NoControl()
    """How the solver's steps are chosen while the model trains."""
    evaluation: EvaluationSettings = EvaluationSettings()

    def plain(self) -> JsonObject:
        """As JSON values."""
        return self.model_dump(mode="json")


def read_config(values: object, origin: str = "config") -> RunConfig:
    """A config from JSON values; the first thing wrong with it is a ConfigError."""
    try:
        text = json.dumps(values)
    except (TypeError, ValueError, RecursionError) as error:
        raise ConfigError(f"{origin} is not made of JSON values: {error}") from None
    try:
        return RunConfig.model_validate_json(text)
    except ValidationError as error:
        raise ConfigError(f"{origin}: {_explain(error, values)}") from None


def _explain(error: ValidationError, values: object) -> str:
    """The first complaint, with where it is, what was got, and near names."""
    first = error.errors()[0]
    path = [str(part) for part in first["loc"]]
    group, fields = _walk(path[:-1] if first["type"] in ("extra_forbidden", "missing") else path)
    place = ".".join(group) if first["type"] not in ("extra_forbidden", "missing") else ".".join([*group, path[-1]])
    if first["type"] == "extra_forbidden":
        return f"no setting {place!r}; {choices(path[-1], fields)}"
    if first["type"] == "missing":
        return f"{place} is missing; give it with --set {place}=VALUE"
    got = "" if isinstance(first["input"], dict) else f", got {_short(first['input'])}"
    message = first["msg"].removeprefix("Value error, ")
    return f"{place or 'the whole'}: {message[0].lower() + message[1:]}{got}"


def _walk(path: list[str]) -> tuple[list[str], list[str]]:
    """The path as the user writes it (no names of variants in it), and the fields of the group there."""
    shown: list[str] = []
    group: Any = RunConfig
    for part in path:
        group = _only(group)
        variants = {v.model_fields["name"].default: v for v in _variants(group) if "name" in v.model_fields}
        if part in variants:
            group = variants[part]
            continue
        shown.append(part)
        if part.isdigit():  # a place in a list of groups
            group = next(iter(_variants(group)), None)
            continue
        field = group.model_fields.get(part) if isinstance(group, type) else None
        group = None if field is None else field.annotation
    group = _only(group)
    is_group = isinstance(group, type) and issubclass(group, BaseModel)
    return shown, list(group.model_fields) if is_group else []


def _only(annotation: object) -> Any:
    """The group of an annotation that may also be null; other annotations as they are."""
    parts = getattr(annotation, "__args__", ())
    return (
        _variants(annotation)[0] if len(parts) == 2 and parts[1] is type(None) and _variants(annotation) else annotation
    )


def _variants(annotation: object) -> list[type[BaseModel]]:
    """The groups in a union, whose names tell them apart, in a list, or in what may be null."""
    inside = [part for part in getattr(annotation, "__args__", ()) if part is not Ellipsis]
    found = [v for v in inside if isinstance(v, type) and issubclass(v, BaseModel)]
    return found or [v for part in inside for v in _variants(part)]


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
