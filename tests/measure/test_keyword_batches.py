"""Batches by keyword and mappings of outputs, as transformers has them, in check, sweep and recalibrate."""

import copy
from collections import UserDict

import pytest
import torch
from torch import nn

import anydepth as ad


class Positional(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(10, 4)
        self.block = ad.ContinuousBlock(lambda: ad.units.MLP(4), "constant", 4, scheme="rk4", steps=4)
        self.norm, self.head = nn.BatchNorm1d(4), nn.Linear(4, 3)

    def forward(self, input_ids, attention_mask=None):
        x = self.block(self.embed(input_ids))
        x = (
            x.mean(1)
            if attention_mask is None
            else (x * attention_mask[..., None]).sum(1) / attention_mask.sum(1, True)
        )
        return self.head(self.norm(x))


class ByKeyword(Positional):
    """The same network, called and answering as models of transformers do."""

    def forward(self, *, input_ids, attention_mask=None, labels=None):
        assert labels is None
        logits = super().forward(input_ids, attention_mask)
        return {"loss": None, "logits": logits, "hidden_states": logits.new_zeros(2)}


def batches(count=3):
    torch.manual_seed(1)
    for _ in range(count):
        ids = torch.randint(0, 10, (16, 6))
        mask = (torch.arange(6) < torch.randint(1, 7, (16, 1))).long()
        yield {"input_ids": ids, "attention_mask": mask, "labels": torch.randint(0, 3, (16,))}


def pair():
    torch.manual_seed(0)
    one = Positional()
    other = ByKeyword()
    other.load_state_dict(one.state_dict())
    return one, other


def positional():
    return [((b["input_ids"], b["attention_mask"]), b["labels"]) for b in batches()]


def test_check_gives_the_same_verdict():
    one, other = pair()
    expected, found = ad.check(one, positional()), ad.check(other, [UserDict(batch) for batch in batches()])
    assert (found.proper, found.reason) == (expected.proper, expected.reason)
    assert str(found.table) == str(expected.table)


def test_recalibrate_gives_the_same_statistics():
    one, other = pair()
    ad.recalibrate(one, positional())
    ad.recalibrate(other, batches())
    for name, tensor in one.state_dict().items():
        assert torch.equal(other.state_dict()[name], tensor)


def test_sweep_finds_the_same_accuracies():
    one, other = pair()
    options = {"sizes": [2], "steps": [2], "schemes": ["euler"], "rounds": 1}
    expected, found = ad.sweep(one, positional(), **options), ad.sweep(other, list(batches()), **options)
    assert [(row.name, row.value) for row in found.rows] == [(row.name, row.value) for row in expected.rows]


def test_what_cannot_be_used_is_said_in_one_line():
    _, model = pair()
    with pytest.raises(ad.ConfigError, match="got str for 'text'"):
        ad.check(model, [{"text": "a"}])
    with pytest.raises(ad.ConfigError, match="no inputs"):
        ad.check(model, [{"labels": torch.zeros(2)}])
    several = copy.deepcopy(model)
    several.forward = lambda **_: {"a": torch.zeros(2), "b": torch.zeros(2)}
    with pytest.raises(ad.ShapeError, match="expected 'logits'"):
        ad.check(several, list(batches()))
