"""Learning rates as a function of the step, and when things happen."""

from math import cos, pi, sqrt

from anydepth.train.config import Constant, Cosine, InverseSqrt, Step

Schedule = Constant | Step | Cosine | InverseSqrt


def rate(schedule: Schedule, step: int, total: int, per_epoch: int) -> float:
    """Factor on the learning rate for optimiser step `step` (from 0) of `total`."""
    if isinstance(schedule, InverseSqrt):
        now = step + 1
        return min(1.0, now / schedule.warmup) / sqrt(max(now, schedule.warmup))
    rising = min(1.0, (step + 1) / schedule.warmup) if schedule.warmup else 1.0
    return rising * _falling(schedule, step, total, per_epoch)


def _falling(schedule: Constant | Step | Cosine, step: int, total: int, per_epoch: int) -> float:
    if isinstance(schedule, Step):
        passed = sum(step >= place for place in places(schedule.milestones, schedule.unit, per_epoch))
        return schedule.factor**passed
    if isinstance(schedule, Cosine):
        length = max(1, total - schedule.warmup)
        done = min(1.0, max(0, step - schedule.warmup) / length)
        return schedule.final + (1 - schedule.final) * 0.5 * (1 + cos(pi * done))
    return 1.0


def places(at: tuple[int, ...], unit: str, per_epoch: int) -> list[int]:
    """The steps, counted from 0, before which something happens."""
    return [place * (per_epoch if unit == "epoch" else 1) for place in at]
