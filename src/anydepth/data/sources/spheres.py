"""Three concentric shells of points in two classes (Ott et al. 2020, sec. 3.1)."""

from pathlib import Path

import numpy as np

from anydepth.data.made import Made
from anydepth.data.option_checks import whole
from anydepth.data.source import SOURCES, Part
from anydepth.data.vectors import Vectors

SHELLS = ((0.1, 0.15), (0.25, 0.3), (0.4, 0.45))
"""Inner and outer radius of the inner, middle and outer shell."""
_CLASSES = (0, 1, 0)


@SOURCES.register("spheres")
class Spheres(Made):
    """Made: points of three concentric shells in d dimensions; tell the middle one from the other two.

    A quarter of the points is in the inner shell, a half in the middle, a quarter in the outer one, at radius
    (b - a) u^(1/d) + a for u uniform in [0, 1], in uniform directions.
    """

    name = "spheres"

    def __init__(self, root: Path, d: int = 2, train: int = 2000, test: int = 1000, seed: int = 0):
        super().__init__(root, train, test, seed)
        self.dimensions = whole(self.name, "d", d, most=100_000)

    def read(self, part: Part) -> Vectors:
        count, random = self.draw(part)
        inner, middle = count // 4, count // 2
        shell = random.permutation(np.repeat([0, 1, 2], [inner, middle, count - inner - middle]))
        least, most = np.array(SHELLS)[shell].T
        radius = (most - least) * random.uniform(size=count) ** (1 / self.dimensions) + least
        normal = random.standard_normal((count, self.dimensions))
        points = radius[:, None] * normal / np.linalg.norm(normal, axis=1, keepdims=True)
        return Vectors(points.astype(np.float32), np.array(_CLASSES)[shell], ("inner and outer", "middle"))
