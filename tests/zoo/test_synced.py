"""Batch norm over two ranks, one operation at a time: what is equal to the whole batch's, and to what."""

import threading

import pytest
import torch
from torch import nn

from anydepth.zoo import synced
from anydepth.zoo.synced import SyncedNorm, synchronise

LIMITS = {torch.float32: 2e-6, torch.float64: 4e-15}
"""Sums over 8 + 8 examples are rounded in another order than sums over 16: a few units in the last place."""


class Pair:
    """Two threads that add up tensors as two ranks do."""

    def __init__(self):
        self.meeting, self.given = threading.Barrier(2), {}

    def add_up(self, x):
        self.given[threading.current_thread().name] = x.clone()
        self.meeting.wait(timeout=30)
        total = self.given["0"] + self.given["1"]
        self.meeting.wait(timeout=30)
        return x.copy_(total)

    def run(self, work):
        """work(rank) on both, and what each returned."""
        found = {}
        threads = [
            threading.Thread(target=lambda r=rank: found.update({r: work(r)}), name=str(rank)) for rank in range(2)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return found[0], found[1]


@pytest.fixture
def pair(monkeypatch):
    both = Pair()
    monkeypatch.setattr(synced, "add_up", both.add_up)
    for name, value in (("is_initialized", True), ("get_world_size", 2)):
        monkeypatch.setattr(synced.dist, name, lambda value=value: value)
    return both


def relative(a, b):
    return float((a - b).abs().max() / b.abs().max())


@pytest.mark.parametrize("dtype", LIMITS)
def test_a_synced_norm_is_the_norm_of_the_whole_batch_up_to_rounding(dtype, pair):
    """Outputs, gradients of inputs and parameters, running statistics; also with shares of different sizes."""
    for cut in (8, 5):
        x = torch.randn(16, 3, 4, 4, dtype=dtype) * 2 + 1
        weights = torch.randn_like(x)
        whole = nn.BatchNorm2d(3).to(dtype)
        halves = [nn.BatchNorm2d(3).to(dtype) for _ in range(2)]
        for half in halves:
            synchronise(half)
            assert type(half) is SyncedNorm
        inputs = [part.clone().requires_grad_() for part in x.split([cut, 16 - cut])]
        wanted_x = x.clone().requires_grad_()
        wanted = whole(wanted_x)
        (wanted * weights).sum().backward()

        def work(rank, halves=halves, inputs=inputs, weights=weights, cut=cut):
            out = halves[rank](inputs[rank])
            (out * weights.split([cut, 16 - cut])[rank]).sum().backward()
            return out.detach()

        found = torch.cat(pair.run(work))
        limit = LIMITS[dtype]
        assert relative(found, wanted.detach()) <= limit
        assert relative(torch.cat([part.grad for part in inputs]), wanted_x.grad) <= 10 * limit
        for name, parameter in whole.named_parameters():
            sums = sum(half.get_parameter(name).grad for half in halves)
            assert relative(sums, parameter.grad) <= 10 * limit
        for half in halves:
            assert relative(half.running_mean, whole.running_mean) <= limit
            assert relative(half.running_var, whole.running_var) <= limit


def test_both_ranks_have_the_same_bits(pair):
    """The sums that decide are the same numbers on both, so that the copies of a model never drift apart."""
    halves = [nn.BatchNorm2d(3) for _ in range(2)]
    for half in halves:
        synchronise(half)
    inputs = torch.randn(2, 8, 3, 4, 4)
    pair.run(lambda rank: [halves[rank](inputs[rank]) for _ in range(3)])
    for name, buffer in halves[0].named_buffers():
        assert torch.equal(buffer, halves[1].get_buffer(name))
