"""What goes into an exported model and what comes out: names, dtypes, and which sizes are free."""

from collections.abc import Callable, Sequence

import torch
from pydantic import BaseModel, ConfigDict
from torch import Tensor

from anydepth.data.facts import Facts

BATCH, WORDS = "batch", "words"
"""Names of the sizes that a caller chooses: examples, and words of the longest sentence."""


Call = Callable[[Sequence[Tensor]], Tensor]
"""A model as a function of its inputs."""


class Port(BaseModel):
    """One input or output; a size is a number, or the name of one that is free."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    dtype: str
    shape: tuple[int | str, ...]


def inputs_of(facts: Facts, dtype: torch.dtype) -> tuple[Port, ...]:
    """What a model is called with: normalised images, vectors, windows of series, or numbers of words with a mask."""
    if facts.kind == "sentences":
        shape = (BATCH, WORDS)
        return Port(name="tokens", dtype="int64", shape=shape), Port(name="mask", dtype="bool", shape=shape)
    return (Port(name=facts.kind, dtype=name_of(dtype), shape=(BATCH, *facts.shape)),)


def output_of(facts: Facts, outputs: Tensor) -> Port:
    """What it answers, from one answer."""
    free = (BATCH, WORDS) if facts.kind == "sentences" else (BATCH,)
    name = "scores" if facts.labels else "outputs"
    return Port(name=name, dtype=name_of(outputs.dtype), shape=(*free, *outputs.shape[len(free) :]))


def preparation(facts: Facts) -> str:
    """What must be done to raw data before it is given to the model, for people who do it themselves."""
    if facts.kind == "images":
        fit = "images upright, cropped at their centre and resized (bicubic) to this shape; then " if facts.fits else ""
        return fit + "(pixel - mean) / std for every channel; pixels are 0 to 255, channels come first, colours are RGB"
    if facts.columns:
        return "columns in order, a category as 0 and 1 for each of its categories; then (value - mean) / std"
    if facts.kind == "vectors" and facts.mean:
        return "(value - mean) / std for every feature"
    if facts.kind == "series":
        return "(value - mean) / std for every channel; times come first, then channels"
    if facts.kind == "vectors":
        return "none: the values of the data as they are"
    return (
        "tokens: the place of every word in the list of words, 1 where it is not there, 0 for padding at the end; "
        "mask: true where there is a word"
    )


def name_of(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def drawn(facts: Facts, dtype: torch.dtype, batch: int, seed: int = 0) -> tuple[Tensor, ...]:
    """Made-up inputs: normal numbers, or sentences of 1 to 12 words."""
    generator = torch.Generator().manual_seed(seed)
    if facts.kind != "sentences":
        return (torch.randn(batch, *facts.shape, generator=generator, dtype=torch.float64).to(dtype),)
    lengths = torch.randint(1, 13, (batch, 1), generator=generator)
    mask = torch.arange(int(lengths.max())) < lengths
    return torch.randint(1, len(facts.words), mask.shape, generator=generator) * mask, mask
