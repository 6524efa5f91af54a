"""What a block keeps for every thread: the statistics of its last pass, and the image of the unit that it used."""

from threading import local

import torch
from torch import nn

from anydepth.executor.image import Image
from anydepth.solve.adaptive import Stats


class PerThread(local):
    """Each thread sees its own; never saved, never copied, and made anew at any moment without harm."""

    def __init__(self) -> None:
        self.stats = Stats()
        self._image: Image | None = None

    def image(self, unit: nn.Module) -> Image | None:
        """What the unit looks like now; nothing under a compiler, which calls the unit itself."""
        if torch.compiler.is_compiling():
            return None
        if self._image is None or not self._image.is_current(unit):
            self._image = Image(unit)
        return self._image

    def __deepcopy__(self, memo: dict) -> "PerThread":
        return PerThread()

    def __reduce__(self) -> tuple:
        return PerThread, ()
