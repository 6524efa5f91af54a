"""What a model must know of the data it was trained on: stored with the run, never read from the data again."""

from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

Task = Literal["classify", "tag", "regress"]
Finite = Annotated[float, Field(allow_inf_nan=False)]


class Facts(BaseModel):
    """Found in the training part alone."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    task: Task
    kind: Literal["images", "vectors", "sentences"]
    shape: tuple[int, ...]
    """Of one input; () for sentences, whose length varies."""
    labels: tuple[str, ...] = ()
    """Names of the classes, in the order of the model's outputs."""
    mean: tuple[Finite, ...] = ()
    std: tuple[Finite, ...] = ()
    """Per channel, in the units of the stored values."""
    words: tuple[str, ...] = ()
    """The vocabulary of sentences; the first two are padding and the unknown word."""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if not all(0 < n < 2**31 for n in self.shape):
            raise ValueError(f"impossible shape {self.shape}")
        channels = self.shape[0] if self.kind == "images" and len(self.shape) == 3 else 0
        if self.kind == "images" and not (len(self.mean) == len(self.std) == channels and all(s > 0 for s in self.std)):
            raise ValueError("images need a mean and a positive std for every channel")
        if self.kind == "vectors" and len(self.shape) != 1:
            raise ValueError(f"vectors have one axis, got shape {self.shape}")
        if (self.task == "regress") == bool(self.labels):
            raise ValueError(f"task {self.task!r} with {len(self.labels)} labels")
        if (self.kind == "sentences") != bool(self.words):
            raise ValueError(f"{self.kind} with {len(self.words)} words")
        return self

    def model_options(self) -> dict[str, Any]:
        """What the data decides about a model; models take what they know of it."""
        options: dict[str, Any] = {}
        if self.labels:
            options["classes"] = len(self.labels)
        if self.kind == "images":
            options["image"] = list(self.shape)
        if self.kind == "vectors":
            options["features"] = self.shape[0]
        if self.words:
            options["words"] = len(self.words)
        return options
