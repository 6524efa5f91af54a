"""What a model must know of the data it was trained on: stored with the run, never read from the data again."""

from math import prod
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

Task = Literal["classify", "tag", "regress"]
Finite = Annotated[float, Field(allow_inf_nan=False)]


class Column(BaseModel):
    """A column of a table, and its categories in the order of their features; a number has none."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    categories: tuple[str, ...] = ()

    @property
    def features(self) -> int:
        return max(1, len(self.categories))


class Facts(BaseModel):
    """Found in the training part alone."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    task: Task
    kind: Literal["images", "vectors", "series", "sentences"]
    shape: tuple[int, ...]
    """Of one input, (times, channels) of series; () for sentences, whose length varies."""
    labels: tuple[str, ...] = ()
    """Names of the classes, in the order of the model's outputs."""
    mean: tuple[Finite, ...] = ()
    std: tuple[Finite, ...] = ()
    """Per channel of images, in the units of the stored values; per channel of series; per feature of
    records, () for other vectors."""
    words: tuple[str, ...] = ()
    """The vocabulary of sentences; the first two are padding and the unknown word."""
    fits: bool = False
    """Whether images of any size were resized and cropped at their centre to this shape."""
    columns: tuple[Column, ...] = ()
    """Of a table, those that are inputs; () where there are none."""
    target: str = ""
    """Name of the column that is learnt."""
    target_mean: tuple[Finite, ...] = ()
    target_std: tuple[Finite, ...] = ()
    """Of the numbers that are learnt, so that a model can answer in their units."""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if not all(0 < n < 2**31 for n in self.shape):
            raise ValueError(f"invalid shape {self.shape}")
        channels = self.shape[0] if self.kind == "images" and len(self.shape) == 3 else 0
        if self.kind == "images" and not (len(self.mean) == len(self.std) == channels and all(s > 0 for s in self.std)):
            raise ValueError("images need a mean and a positive std for every channel")
        if self.kind == "vectors" and len(self.shape) != 1:
            raise ValueError(f"vectors have one axis, got shape {self.shape}")
        if self.kind == "series" and len(self.shape) != 2:
            raise ValueError(f"series have times and channels, got shape {self.shape}")
        self._check_records()
        if (self.task == "regress") == bool(self.labels):
            raise ValueError(f"task {self.task!r} with {len(self.labels)} labels")
        if (self.kind == "sentences") != bool(self.words):
            raise ValueError(f"{self.kind} with {len(self.words)} words")
        return self

    def _check_records(self) -> None:
        if self.kind != "images" and self.mean and self.shape[-1:] != (len(self.mean),):
            raise ValueError(f"{len(self.mean)} means for shape {self.shape}")
        if len(self.mean) != len(self.std) or not all(spread > 0 for spread in (*self.std, *self.target_std)):
            raise ValueError("every mean needs a positive std")
        if len(self.target_mean) != len(self.target_std):
            raise ValueError("every target_mean needs a target_std")
        features = sum(column.features for column in self.columns)
        if self.columns and (self.shape != (features,) or len(self.mean) != features):
            raise ValueError(f"the columns make {features} features, the shape is {self.shape}")

    def model_options(self) -> dict[str, object]:
        """What the data decides about a model; models take what they know of it."""
        options: dict[str, object] = {}
        if self.labels:
            options["classes"] = len(self.labels)
        if self.kind == "images":
            options["image"] = list(self.shape)
        if self.kind == "vectors":
            options["features"] = self.shape[0]
        if self.kind == "series":
            options |= {"window": list(self.shape), "features": prod(self.shape)}
        if self.target_mean:
            options |= {"target_mean": list(self.target_mean), "target_std": list(self.target_std)}
        if self.words:
            options["words"] = len(self.words)
        return options
