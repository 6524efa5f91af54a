"""Images: kept as uint8, cropped, mirrored and normalised a batch at a time."""

from dataclasses import dataclass
from typing import Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from anydepth.data.facts import Facts
from anydepth.data.order import Draw, Indices, below
from anydepth.data.table import Augment, Batch, Table, hash_of
from anydepth.errors import DataError

_ROWS, _COLUMNS, _MIRROR = 10, 11, 12
"""Streams of random numbers."""


@dataclass(frozen=True, eq=False)
class Images(Table):
    """pixels (count, channels, height, width) in uint8 with their classes, and the names of the classes."""

    pixels: NDArray[np.uint8]
    classes: Indices
    labels: tuple[str, ...]
    fits: bool = False
    """Whether they were resized and cropped to this size."""

    def __len__(self) -> int:
        return len(self.pixels)

    def take(self, indices: Indices) -> Self:
        return type(self)(self.pixels[indices], self.classes[indices], self.labels, self.fits)

    def digest(self) -> str:
        return hash_of(self.pixels, self.classes)

    def facts(self) -> Facts:
        if not len(self):
            raise DataError("the training part holds no images")
        mean, std = channel_statistics(self.pixels)
        return Facts(
            task="classify",
            kind="images",
            shape=self.pixels.shape[1:],
            labels=self.labels,
            mean=mean,
            std=std,
            fits=self.fits,
        )

    def batch(self, indices: Indices, facts: Facts, augment: Augment | None = None, draw: Draw | None = None) -> Batch:
        if augment is None or draw is None:
            pixels = torch.from_numpy(self.pixels[indices])
        else:
            pixels = torch.from_numpy(changed(self.pixels, indices, augment, draw))
        return Batch((normalised(pixels, facts),), torch.from_numpy(self.classes[indices]))


def normalised(pixels: Tensor, facts: Facts) -> Tensor:
    """(x - mean) / std per channel, in float32, or in float64 if the pixels are."""
    dtype = torch.float64 if pixels.dtype == torch.float64 else torch.float32
    mean, std = (torch.tensor(values, dtype=dtype).view(-1, 1, 1) for values in (facts.mean, facts.std))
    return torch.addcmul(-mean / std, pixels.to(dtype), 1 / std)


def channel_statistics(pixels: NDArray[np.uint8]) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Mean and standard deviation of every channel, exact: from counts of the 256 values."""
    means, spreads = [], []
    values = np.arange(256)
    for channel in range(pixels.shape[1]):
        counts = np.bincount(pixels[:, channel].reshape(-1), minlength=256)
        mean = float(counts @ values / counts.sum())
        means.append(mean)
        spreads.append(float(np.sqrt(counts @ (values - mean) ** 2 / counts.sum())) or 1.0)
    return tuple(means), tuple(spreads)


def changed(pixels: NDArray[np.uint8], indices: Indices, augment: Augment, draw: Draw) -> NDArray[np.uint8]:
    """A batch with every image shifted (black moves in) and mirrored by its own random numbers.

    One gather over the flat pixels of the batch, padded with black.
    """
    count, channels, height, width = len(indices), *pixels.shape[1:]
    pad = augment.crop
    padded = np.zeros((count, channels, height + 2 * pad, width + 2 * pad), np.uint8)
    padded[:, :, pad : pad + height, pad : pad + width] = pixels[indices]
    rows = below(draw, indices, _ROWS, 2 * pad + 1)[:, None] + np.arange(height)
    columns = np.tile(np.arange(width), (count, 1))
    if augment.flip:
        mirrored = below(draw, indices, _MIRROR, 2).astype(bool)
        columns[mirrored] = columns[mirrored, ::-1]
    columns += below(draw, indices, _COLUMNS, 2 * pad + 1)[:, None]
    image, channel = np.arange(count)[:, None, None, None], np.arange(channels)[:, None, None]
    return padded[image, channel, rows[:, None, :, None], columns[:, None, None, :]]
