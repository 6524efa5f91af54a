"""Settings of trainings at many depths."""

from typing import Annotated, Self

from pydantic import Field, model_validator

from anydepth.runs.settings import Count, Settings, Whole

Full = Annotated[float, Field(ge=0, le=1)]


class FormSettings(Settings):
    """A form of the model; what is left out stays as the model has it."""

    steps: Annotated[int, Field(ge=1, le=16_384)] | None = None
    size: Count | None = None
    scheme: str | None = None
    basis: str | None = None

    @model_validator(mode="after")
    def _says_something(self) -> Self:
        if not any(self.model_dump().values()):
            raise ValueError("a form needs steps, size, scheme or basis")
        return self


class AnyDepthSettings(Settings):
    """In every step of the optimiser: the model as it is, its coarsest form, and some others, taught by the model."""

    forms: Annotated[tuple[FormSettings, ...], Field(min_length=1)] | None = None
    """Forms beside the model as it is; None: its steps halved down to 1, as they are at each time. One that the model
    has not grown to yet is left out until it has."""
    draws: Whole = 1
    """How many forms are drawn at random in every step, beside the model as it is and its coarsest form."""
    sandwich: bool = True
    """Take the coarsest form in every step; else it is drawn like any other, and one more is drawn."""
    distill: Full = 1.0
    """Share of the model's own outputs in what the other forms learn from; the rest are the labels."""
    temperature: Annotated[float, Field(gt=0, le=100)] = 1.0
    """Softens the outputs that are learnt from."""
    finest: Annotated[float, Field(gt=0, le=1)] = 0.5
    """Share of the model as it is in the loss; the other forms share the rest equally."""
