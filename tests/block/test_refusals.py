"""A faster path that refused a unit is asked again as soon as the unit looks otherwise."""

import torch
from torch import nn

import anydepth as ad
from anydepth.block.paths import PATHS, UnitRefusal


class Own(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.softplus(self.layer(x))


def test_a_refusal_that_lies_in_the_unit_is_kept_with_its_image(monkeypatch):
    block, asked = ad.ContinuousBlock(Own, scheme="euler", steps=2), []

    def attempt(given, y):
        asked.append(type(given.unit))
        return UnitRefusal("no such unit")

    monkeypatch.setattr("anydepth.block.paths._attempts", lambda: (("probe", attempt),))
    block(torch.randn(2, 3))
    block(torch.randn(2, 3))
    assert len(asked) == 1
    assert block.stats.refused == {"probe": "no such unit"}
    block.eval()
    block(torch.randn(2, 3))
    assert len(asked) == 2


def test_other_refusals_are_asked_for_every_pass(monkeypatch):
    block, asked = ad.ContinuousBlock(Own, scheme="euler", steps=2), []
    monkeypatch.setattr("anydepth.block.paths._attempts", lambda: (("probe", lambda g, y: asked.append(1) or "no"),))
    block(torch.randn(2, 3))
    block(torch.randn(2, 3))
    assert len(asked) == 2


def test_the_registry_of_paths_is_whole():
    assert len(PATHS.names()) >= 3
