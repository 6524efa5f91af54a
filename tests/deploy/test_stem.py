"""What all forms of one net compute alike is computed once."""

import pytest
import torch
from torch import nn

import anydepth as ad
from anydepth.deploy.anytime.rungs import Way, in_way
from anydepth.deploy.anytime.stem import split_stem
from anydepth.zoo.models.image_network import ImageNetwork

WAYS = [Way("euler", 1), Way("midpoint", 2)]


def image_net(first_stitch=True):
    torch.manual_seed(0)
    made = ImageNetwork(
        (4, 8),
        image=(3, 8, 8),
        classes=5,
        pool=4,
        basis="linear",
        size=3,
        steps=4,
        scheme="rk4",
        first_stitch=first_stitch,
    )
    return made.train()


def trained_a_little(model):
    for _ in range(3):
        model(torch.randn(16, 3, 8, 8))
    return model.eval()


def forms_of(model, statistics):
    return [ad.freeze(each) for each in (*(in_way(model, way, statistics) for way in WAYS), model)]


@pytest.mark.parametrize("first_stitch", [True, False])
@pytest.mark.parametrize("with_statistics", [True, False])
def test_the_parts_answer_as_the_forms(first_stitch, with_statistics):
    model = trained_a_little(image_net(first_stitch))
    statistics = [torch.randn(16, 3, 8, 8) for _ in range(2)] if with_statistics else None
    forms, x = forms_of(model, statistics), torch.randn(7, 3, 8, 8)
    split = split_stem(forms, (x[:4],))
    assert split is not None
    stem, rests = split
    parts = stem(x)
    for rest, form in zip(rests, forms, strict=True):  # in turn on the same parts, which nobody may write over
        torch.testing.assert_close(rest(*parts), form(x), rtol=0, atol=1e-6)
    few = torch.tensor([5, 2])
    torch.testing.assert_close(rests[1](*(part[few] for part in parts)), forms[1](x[few]), rtol=0, atol=1e-5)
    first_width = model.stem[0].weight.shape[1]
    assert not any(p.dim() == 4 and p.shape[1] == first_width for rest in rests for p in rest.parameters())


def test_statistics_ahead_of_the_first_block_stay():
    model = trained_a_little(image_net())
    other = in_way(model, WAYS[0], [3 + 2 * torch.randn(16, 3, 8, 8)])
    before, after = dict(model.named_buffers()), dict(other.named_buffers())
    ahead = [name for name in before if name.startswith(("stem", "stitches.0"))]
    later = [name for name in before if name.startswith(("stitches.1", "norm")) and name.endswith("mean")]
    assert ahead
    assert later
    assert all(torch.equal(before[name], after[name]) for name in ahead)
    assert not any(torch.equal(before[name], after[name]) for name in later)


class Masked(nn.Module):
    """A length and positions, which have no row for each example, beside a mask that has."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Linear(3, 6)
        self.block = ad.ContinuousBlock(lambda: nn.Sequential(nn.Linear(6, 6), nn.Tanh()), "linear", 3, steps=4)
        self.head = nn.Linear(6, 4)

    def forward(self, x, mask):
        places = torch.arange(x.shape[1], device=x.device).view(1, -1, 1)
        seen = self.embed(x) * mask.unsqueeze(-1) + 0.1 * places
        return self.head((self.block(seen) * mask.unsqueeze(-1)).sum(1) / x.shape[1])


def test_sizes_and_masks():
    torch.manual_seed(0)
    model = Masked().eval()
    x, mask = torch.randn(6, 5, 3), (torch.rand(6, 5) < 0.7).float()
    forms = forms_of(model, None)
    split = split_stem(forms, (x, mask))
    assert split is not None
    parts = split[0](x, mask)
    assert all(len(part) == 6 for part in parts)
    for rest, form in zip(split[1], forms, strict=True):
        torch.testing.assert_close(rest(*(part[:3] for part in parts)), form(x[:3], mask[:3]), rtol=0, atol=1e-6)


def test_nets_that_share_nothing_have_no_stem():
    models = []
    for seed in range(2):
        torch.manual_seed(seed)
        models.append(ad.freeze(nn.Sequential(nn.Linear(3, 4), ad.ContinuousBlock(lambda: nn.Linear(4, 4))).eval()))
    assert split_stem(models, (torch.randn(2, 3),)) is None
    assert split_stem([models[0]], (torch.randn(2, 3),)) is None
    assert split_stem([models[0], nn.Linear(3, 4)], (torch.randn(2, 3),)) is None
