"""Order and augmentation are pure functions of (seed, epoch, index)."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from anydepth.data.dataset import Dataset
from anydepth.data.images import Images, changed, normalised
from anydepth.data.order import Draw, batches, below, permutation, split
from anydepth.data.source import data_directory
from anydepth.data.table import Augment
from anydepth.errors import ConfigError, DataError

SEEDS = st.integers(0, 2**32 - 1)


@given(SEEDS, st.integers(0, 10_000), st.integers(1, 300), st.integers(1, 40))
def test_an_epoch_has_every_example_at_most_once(seed, epoch, count, size):
    parts = batches(Draw(seed, epoch), count, size)
    together = np.concatenate(parts)
    assert len(set(together)) == len(together) > count - min(size, count)
    assert all(len(part) == min(size, count) for part in parts)
    assert all(np.array_equal(a, b) for a, b in zip(parts, batches(Draw(seed, epoch), count, size), strict=True))


@given(SEEDS, st.integers(1, 300), st.integers(1, 40))
def test_batches_of_like_length_are_batches_too(seed, count, size):
    lengths = np.arange(count) % 17
    parts = batches(Draw(seed, 3), count, size, lengths)
    together = np.concatenate(parts)
    assert len(set(together)) == len(together) > count - min(size, count)


def test_what_is_left_over_comes_up_in_other_epochs():
    lengths = np.arange(100)
    seen = {int(i) for epoch in range(20) for part in batches(Draw(0, epoch), 100, 64, lengths) for i in part}
    assert seen == set(range(100))


def test_bucketing_puts_like_lengths_together():
    lengths = below(Draw(0, 0), np.arange(6400), 5, 60)
    spread = [np.ptp(lengths[part]) for part in batches(Draw(0, 0), 6400, 64, lengths)]
    assert np.mean(spread) < 5
    first = [lengths[part].mean() for part in batches(Draw(0, 0), 6400, 64, lengths)][:20]
    assert np.ptp(first) > 20, "the batches themselves come in random order"


def test_orders_differ_between_epochs_and_seeds_and_look_uniform():
    orders = [permutation(Draw(seed, epoch), 1000) for seed in range(3) for epoch in range(3)]
    assert len({tuple(order) for order in orders}) == 9
    firsts = np.array([permutation(Draw(0, epoch), 10)[0] for epoch in range(5000)])
    assert np.bincount(firsts, minlength=10).min() > 400
    draws = below(Draw(1, 2), np.arange(50_000), 7, 9)
    counts = np.bincount(draws, minlength=9)
    assert ((counts - 50_000 / 9) ** 2 / (50_000 / 9)).sum() < 30, "chi-square with 8 degrees of freedom"
    neighbours = np.corrcoef(draws[:-1], draws[1:])[0, 1]
    assert abs(neighbours) < 0.02


@given(SEEDS, st.integers(0, 5), st.permutations(range(12)), st.integers(0, 3), st.booleans())
def test_augmentation_does_not_depend_on_the_company(seed, epoch, order, crop, flip):
    pixels = np.random.default_rng(0).integers(0, 256, (12, 2, 6, 5), dtype=np.uint8)
    draw, augment = Draw(seed, epoch), Augment(crop, flip)
    whole = changed(pixels, np.arange(12), augment, draw)
    assert np.array_equal(changed(pixels, np.array(order), augment, draw), whole[order])


def test_crop_shifts_and_flip_mirrors():
    pixels = np.arange(1, 31, dtype=np.uint8).reshape(1, 1, 5, 6).repeat(400, 0)
    found = changed(pixels, np.arange(400), Augment(1, True), Draw(0, 0))
    padded = np.pad(pixels[0, 0], 1)
    expected = {
        window.tobytes() if not mirror else window[:, ::-1].tobytes()
        for mirror in (0, 1)
        for y in range(3)
        for x in range(3)
        for window in [padded[y : y + 5, x : x + 6]]
    }
    assert {image[0].tobytes() for image in found} == expected


def test_normalisation_is_that_of_the_training_part():
    pixels = np.random.default_rng(0).integers(0, 256, (50, 3, 4, 4), dtype=np.uint8)
    images = Images(pixels, np.zeros(50, np.int64), ("a",))
    facts = images.facts()
    x = normalised(torch.from_numpy(pixels), facts)
    assert torch.allclose(x.mean((0, 2, 3)), torch.zeros(3), atol=1e-6)
    assert torch.allclose(x.std((0, 2, 3), correction=0), torch.ones(3), atol=1e-6)
    assert np.allclose(facts.mean, pixels.mean((0, 2, 3)))
    assert pixels.dtype == np.uint8


@given(SEEDS, st.integers(2, 500), st.data())
def test_splits_are_disjoint_whole_and_fixed(seed, count, data):
    held_out = data.draw(st.integers(0, count - 1))
    train, validation = split(seed, count, held_out)
    assert len(validation) == held_out
    assert sorted([*train, *validation]) == list(range(count))
    assert np.array_equal(split(seed, count, held_out)[0], train)


def test_validation_and_limit_do_not_overlap_and_do_not_depend_on_each_other():
    whole, few = Dataset("digits", validation=200), Dataset("digits", validation=200, limit=100)
    assert len(whole.part("train")) == 1057
    assert len(few.part("train")) == 100
    assert np.array_equal(whole.part("validation").pixels, few.part("validation").pixels)
    assert len(Dataset("digits").part("validation")) == 126
    assert len(Dataset("digits", validation=0).part("validation")) == 0
    assert len(Dataset("digits").part("test")) == 540


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (lambda: Dataset("digits", validation=1257).part("train"), DataError),
        (lambda: Dataset("digits").part("dev"), ConfigError),
        (lambda: Dataset("digit"), ConfigError),
        (lambda: Dataset("digits", {"x": 1}), ConfigError),
    ],
)
def test_impossible_parts_are_refused(make, error):
    with pytest.raises(error):
        make()


def test_the_data_directory_is_the_flag_then_the_variable_then_the_cache(monkeypatch, tmp_path):
    monkeypatch.setenv("ANYDEPTH_DATA", str(tmp_path / "variable"))
    assert data_directory(tmp_path) == tmp_path
    assert data_directory() == tmp_path / "variable"
    monkeypatch.delenv("ANYDEPTH_DATA")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert data_directory() == tmp_path / "cache" / "anydepth" / "data"
