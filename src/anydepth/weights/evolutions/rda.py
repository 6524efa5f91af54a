"""Reaction, diffusion and advection of a kernel on its own pixels, with periodic ends (ANODEV2 eq 8, 9)."""

from collections.abc import Sequence
from functools import reduce
from math import pi

import torch
from torch import Tensor, nn

from anydepth.errors import ConfigError, choices
from anydepth.solve.plan import Step
from anydepth.weights.evolutions import EVOLUTIONS, Evolution, zeros

TERMS = ("diffusion", "advection", "reaction")
NONLINEARITIES = {"tanh": torch.tanh, "sigmoid": torch.sigmoid, "relu": torch.relu}
FORMS = ("inside", "after")


@EVOLUTIONS.register("rda")
class ReactionDiffusionAdvection(Evolution):
    """dw/dt = tau Lap w + v . grad w + rho w on a kernel's pixels, solved exactly by FFT.

    Args:
        per: one set of coefficients per "layer", or one per "filter" (output channel).
        terms: which of diffusion, advection and reaction there are.
        diffusion: tau at the start; v and rho start at zero. tau is the square of a parameter, so it is never negative
            and zero can be reached.
        nonlinearity: tanh, sigmoid or relu around it, and `form` where: "inside" the right-hand side (eq 8), or "after"
            every step of the weights' grid (eq 9). With one, there is no closed form, and q = 0 is lost.
    """

    def __init__(
        self,
        shape: Sequence[int],
        per: str = "layer",
        terms: Sequence[str] = TERMS,
        diffusion: float = 0.01,
        nonlinearity: str | None = None,
        form: str = "inside",
    ):
        super().__init__(shape)
        if len(self.shape) < 3:
            raise ConfigError(
                f"reaction, diffusion and advection need a kernel with spatial axes, got shape {self.shape}; "
                "give it the evolution 'linear' or 'network', or a basis"
            )
        if per not in ("layer", "filter"):
            raise ConfigError(f"coefficients are per 'layer' or per 'filter', got {per!r}")
        if not isinstance(terms, (list, tuple)):
            raise ConfigError(f"terms are a list, got {terms!r}")
        for term in terms:
            if term not in TERMS:
                raise ConfigError(f"unknown term {term!r}; {choices(term, TERMS)}")
        if nonlinearity is not None and nonlinearity not in NONLINEARITIES:
            raise ConfigError(f"unknown nonlinearity {nonlinearity!r}; {choices(nonlinearity, NONLINEARITIES)}")
        if form not in FORMS:
            raise ConfigError(f"unknown form {form!r}; {choices(form, FORMS)}")
        if not isinstance(diffusion, (int, float)) or not 0 <= diffusion < float("inf"):
            raise ConfigError(f"diffusion must be a number from 0, got {diffusion!r}")
        self.terms, self.form, self.has_flow = tuple(terms), form, nonlinearity is None
        self.outside = NONLINEARITIES[nonlinearity] if nonlinearity else None
        count = () if per == "layer" else (self.shape[0],)
        if "diffusion" in terms:
            self.diffusion_root = nn.Parameter(torch.full(count, float(diffusion) ** 0.5))
        if "advection" in terms:
            self.advection = zeros(*count, len(self.space))
        if "reaction" in terms:
            self.reaction = zeros(*count)

    @property
    def diffusion(self) -> Tensor:
        """tau, never negative."""
        return self.diffusion_root.square()

    def forward(self, w: Tensor) -> Tensor:
        slope = self._back(self._symbol(w) * self._modes(w), w)
        return slope if self.outside is None or self.form == "after" else self.outside(slope)

    def flow(self, w: Tensor, times: Tensor) -> Tensor:
        factors = (self._symbol(w) * times.view(-1, *[1] * w.dim())).exp()
        return self._back(factors * self._modes(w), w)

    def step(self, w: Tensor, step: Step, width: float) -> Tensor:
        if self.outside is not None and self.form == "after":
            return self.outside(self.flow(w, torch.full((1,), width, dtype=w.dtype, device=w.device))[0])
        return super().step(w, step, width)

    def _axes(self) -> list[int]:
        return list(range(-len(self.space), 0))

    def _modes(self, w: Tensor) -> Tensor:
        return torch.fft.rfftn(w, dim=self._axes())

    def _back(self, modes: Tensor, w: Tensor) -> Tensor:
        return torch.fft.irfftn(modes, s=self.space, dim=self._axes()).to(w.dtype)

    def _symbol(self, w: Tensor) -> Tensor:
        """-tau k^2 + i k . v + rho for every mode, as (filters or 1, 1, *modes)."""
        waves = [self._wave_numbers(axis, w) for axis in range(len(self.space))]
        shape = reduce(torch.broadcast_shapes, [wave.shape for wave in waves])
        real, imaginary = w.new_zeros(shape), w.new_zeros(shape)
        if "diffusion" in self.terms:
            real = real - self._spread(self.diffusion) * sum(wave.square() for wave in waves)
        if "reaction" in self.terms:
            real = real + self._spread(self.reaction)
        if "advection" in self.terms:
            odd = [_without_nyquist(wave, size) for wave, size in zip(waves, self.space, strict=True)]
            parts = zip(self.advection.unbind(-1), odd, strict=True)
            imaginary = imaginary + sum(self._spread(speed) * wave for speed, wave in parts)
        return torch.complex(*torch.broadcast_tensors(real, imaginary))

    def _spread(self, coefficient: Tensor) -> Tensor:
        """A coefficient, or one per filter, beside the modes of (outputs, inputs, *space)."""
        return coefficient.reshape(-1, *[1] * (len(self.space) + 1))

    def _wave_numbers(self, axis: int, w: Tensor) -> Tensor:
        """2 pi fftfreq along one axis; the last one has half of the modes, as the kernel is real."""
        count = len(self.space)
        frequencies = torch.fft.rfftfreq if axis == count - 1 else torch.fft.fftfreq
        found = 2 * pi * frequencies(self.space[axis], dtype=w.dtype, device=w.device)
        return found.view(*[-1 if i == axis else 1 for i in range(count)])


def _without_nyquist(wave: Tensor, size: int) -> Tensor:
    """The mode of period two has no odd derivative on the grid; with one, two half steps would not make a whole one."""
    return torch.where(wave.abs() > pi * (1 - 0.5 / size), 0.0, wave) if size % 2 == 0 else wave
