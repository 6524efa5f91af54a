"""Weights that stay as they are."""

from torch import Tensor

from anydepth.weights.evolutions import EVOLUTIONS, Evolution


@EVOLUTIONS.register("none")
class Still(Evolution):
    """q = 0: one set of weights at all depths, as in a Neural ODE."""

    has_flow = True

    def forward(self, w: Tensor) -> Tensor:
        return w * 0

    def flow(self, w: Tensor, times: Tensor) -> Tensor:
        return w.expand(len(times), *w.shape)
