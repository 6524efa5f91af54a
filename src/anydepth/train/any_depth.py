"""Any-depth training: in every step the model as it is, its coarsest form and some others.

The model as it is comes first, learns from the labels, and is the only one that commits running statistics. The other
forms learn from its outputs (the sandwich rule with in-place distillation, Yu & Huang 2019, here over depth). Their
batch statistics are not kept: those of any form, also of one that was never trained, are estimated anew after training
by `recalibrate`, while statistics kept per form would have to be refined, averaged and saved for each, and there would
be none for a form between two of them. The estimate is exact where the statistics have a function for every step; with
fewer functions than steps it is a fit.
"""

from collections.abc import Iterable, Iterator
from contextlib import nullcontext
from typing import Protocol

import numpy as np
from torch import nn

from anydepth.errors import ConfigError
from anydepth.runs.config import RunConfig
from anydepth.runs.depth_settings import AnyDepthSettings
from anydepth.surgery.blocks import blocks_in
from anydepth.surgery.forms import form_of
from anydepth.surgery.spare_state import spare_state
from anydepth.surgery.views import PartialForm, View, read_form, usual_forms

_STREAM = 3
"""Of random numbers, beside those that other parts of a training draw from its seed."""
Drawn = list[tuple[float, View | None]]
"""Shares of the loss, and forms; None: the model as it is. The first alone commits state."""


class Drawing(Protocol):
    """Which forms a model runs in, in one step of a training: a function of the seed and the step."""

    def drawn(self, model: nn.Module, step: int) -> Drawn: ...


class AsItIs:
    """One pass of the model as it is."""

    def drawn(self, model: nn.Module, step: int) -> Drawn:
        return [(1.0, None)]


class Sandwich:
    """The model as it is, its coarsest form, and others at random.

    Args:
        forms: beside the model as it is; None: the model's steps halved down to 1, as they are at each time.
        draws: how many of them are drawn besides the coarsest.
        sandwich: take the coarsest in every step.
        finest: the share of the model as it is in the loss.
        is_growing: leave out forms that are finer than the model, instead of refusing them.
    """

    def __init__(
        self,
        forms: tuple[PartialForm, ...] | None = None,
        draws: int = 1,
        sandwich: bool = True,
        finest: float = 0.5,
        seed: int = 0,
        is_growing: bool = False,
    ):
        self.forms, self.draws, self.sandwich, self.finest, self.seed = forms, draws, sandwich, finest, seed
        self.is_growing = is_growing
        self._made: dict[PartialForm, View] = {}

    def drawn(self, model: nn.Module, step: int) -> Drawn:
        views = self.views(model)
        coarsest = views[:1] if self.sandwich else []
        rest, count = views[len(coarsest) :], self.draws + (not self.sandwich)
        draw = np.random.default_rng((self.seed, _STREAM, step))
        chosen = [rest[i] for i in draw.permutation(len(rest))[:count]]
        others = [*coarsest, *chosen]
        if not others or self.finest == 1:
            return [(1.0, None)]
        return [(self.finest, None), *(((1 - self.finest) / len(others), view) for view in others)]

    def views(self, model: nn.Module) -> list[View]:
        """The forms that the model can be set to now, the coarsest first."""
        asked = usual_forms(model) if self.forms is None else self.forms
        own = form_of(model)
        fits = [form for form in asked if not self.is_growing or is_within(form, model)]
        views = {form: self._view(model, form) for form in fits if form.of(model) != own}
        order = sorted(views, key=lambda form: (views[form].evaluations, form.size or own.size))
        return [views[form] for form in order]

    def _view(self, model: nn.Module, form: PartialForm) -> View:
        known = self._made.get(form)
        if known is None or not known.is_current(model):
            check_form(form, model)
            known = self._made[form] = View(model, form)
        return known


class AnyDepth:
    """A model and the forms that it is trained in, for training loops of one's own."""

    def __init__(self, model: nn.Module, drawing: Sandwich):
        self.model, self.drawing = model, drawing

    def draw(self, step: int) -> Iterator[tuple[float, nn.Module]]:
        """Shares of the loss and the model set to a form, the model as it is first.

        Which forms come depends on the seed and the step alone. Only the first pass writes running statistics. Take the
        loss and its gradient before the next form is asked for; afterwards the model is as it was.
        """
        yield from passes(self.model, self.drawing.drawn(self.model, step))


def any_depth(
    model: nn.Module,
    forms: Iterable[object] | None = None,
    *,
    draws: int = 1,
    sandwich: bool = True,
    finest: float = 0.5,
    seed: int = 0,
) -> AnyDepth:
    """Train a model to be good at every depth, in a loop of one's own:

        depths = ad.any_depth(model, [1, 2, 4])
        for step, (x, y) in enumerate(loader):
            optimizer.zero_grad()
            for share, view in depths.draw(step):
                (share * loss_fn(view(x), y)).backward()
            optimizer.step()

    Args:
        forms: numbers of steps, or mappings such as {"steps": 4, "size": 4, "scheme": "euler"}; by default the model's
            own steps halved down to 1.
        draws: how many of them are drawn in every step, beside the model as it is and its coarsest form.
        sandwich: take the coarsest form in every step; else it is drawn like any other, and one more is drawn.
        finest: the share of the model as it is in the loss; the others share the rest.
        seed: with the step decides what is drawn.
    """
    if not isinstance(draws, int) or isinstance(draws, bool) or draws < 0:
        raise ConfigError(f"draws must be a whole number of at least 0, got {draws!r}")
    if not 0 < finest <= 1:
        raise ConfigError(f"finest is a share of the loss above 0 and at most 1, got {finest!r}")
    read = None if forms is None else tuple(dict.fromkeys(read_form(form) for form in forms))
    drawing = Sandwich(read, draws, sandwich, finest, seed)
    drawing.views(model)
    return AnyDepth(model, drawing)


def passes(model: nn.Module, drawn: Drawn) -> Iterator[tuple[float, nn.Module]]:
    """The model set to one form after the other; all but the first leave its buffers alone."""
    for place, (share, view) in enumerate(drawn):
        with nullcontext() if view is None else view(), spare_state(model) if place else nullcontext():
            yield share, model


def is_within(form: PartialForm, model: nn.Module) -> bool:
    """Whether a form has at most the model's steps and size."""
    own = form_of(model)
    return (form.steps or 1) <= (own.steps or 1) and (form.size or 1) <= own.size


def check_form(form: PartialForm, model: nn.Module) -> None:
    """Refuse a form that is finer than the model."""
    own = form_of(model)
    for name, asked, most in (("steps", form.steps, own.steps), ("size", form.size, own.size)):
        if asked is not None and most is not None and asked > most:
            raise ConfigError(
                f"the form with {form} has more {name} than the model, which has {most}; the finest form is the model "
                f"as it is, so give at most {most}, or a model with more"
            )


def sandwich_of(settings: AnyDepthSettings, seed: int) -> Sandwich:
    """What a training's settings say."""
    forms = None if settings.forms is None else tuple(read_form(form.model_dump()) for form in settings.forms)
    return Sandwich(forms, settings.draws, settings.sandwich, settings.finest, seed, is_growing=True)


def check_any_depth(config: RunConfig, model: nn.Module) -> None:
    """Refuse, before training, forms that the model does not have, grown or not."""
    settings = config.training.any_depth
    if settings is None:
        return
    blocks = blocks_in(model)
    if not blocks:
        raise ConfigError("training.any_depth needs continuous blocks, and this model has none; leave it out")
    odd = [name for name, block in blocks.items() if block.solver.steps is None]
    if odd:
        raise ConfigError(f"training.any_depth needs fixed steps, but {', '.join(odd)} is adaptive; leave it out")
    drawing = sandwich_of(settings, config.seed)
    for form in drawing.forms or ():
        check_form(form, model)
        View(model, form)
