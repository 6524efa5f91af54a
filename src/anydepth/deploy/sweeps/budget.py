"""What a form of a model may cost."""

from dataclasses import dataclass
from math import isfinite

from anydepth.errors import ConfigError

CONFIDENCE = 0.95
"""In a drop that is kept."""


@dataclass(frozen=True)
class Budget:
    """Limits of which every one that is given must be kept."""

    max_params: int | None = None
    max_latency_ms: float | None = None
    max_drop: float | None = None
    """Points below the source: of accuracy, or of the metric that a sweep has instead."""
    confidence: float = CONFIDENCE
    """That a picked form keeps that drop on other examples of the same kind; 0: as measured is enough."""

    def __post_init__(self) -> None:
        for name, least in (("max_params", 1), ("max_latency_ms", 0.0), ("max_drop", None)):
            value = getattr(self, name)
            if value is None:
                continue
            if not isfinite(value) or (least is not None and value < least):
                raise ConfigError(f"{name} must be a finite number{_above(least)}, got {value}")
        if not 0 <= self.confidence < 1:
            raise ConfigError(f"confidence must be 0, for drops as measured, or a share below 1, got {self.confidence}")

    @property
    def is_empty(self) -> bool:
        return self.max_params is None and self.max_latency_ms is None and self.max_drop is None

    @property
    def is_drop_alone(self) -> bool:
        """Whether nothing says how small a form must be, so that the smallest is meant."""
        return self.max_drop is not None and self.max_params is None and self.max_latency_ms is None

    def affords(self, parameters: int, latency_ms: float) -> bool:
        few = self.max_params is None or parameters <= self.max_params
        return few and (self.max_latency_ms is None or latency_ms <= self.max_latency_ms)

    def tolerates(self, drop: float) -> bool:
        return self.max_drop is None or drop <= self.max_drop

    def describe(self) -> dict[str, float]:
        """The limits that are given, as JSON values."""
        given = {"max_params": self.max_params, "max_latency_ms": self.max_latency_ms, "max_drop": self.max_drop}
        if self.max_drop is not None:
            given["confidence"] = self.confidence
        return {name: value for name, value in given.items() if value is not None}

    def __str__(self) -> str:
        told = []
        if self.max_params is not None:
            told.append(f"at most {self.max_params:,} parameters")
        if self.max_latency_ms is not None:
            told.append(f"at most {self.max_latency_ms:g} ms")
        if self.max_drop is not None:
            told.append(f"a drop of at most {self.max_drop:g}")
        return " and ".join(told) or "no limit at all"


def _above(least: float | None) -> str:
    return "" if least is None else f" of at least {least:g}"
