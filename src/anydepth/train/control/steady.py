"""A number of steps predicted from measured errors, moved to at once, and then kept."""

from math import ceil

from pydantic import BaseModel, ConfigDict, Field

from anydepth.runs.control import SteadyControl
from anydepth.train.control.controller import CONTROLLERS, Clock, Decision, Solvers, known
from anydepth.train.control.estimate import (
    Compare,
    first_step,
    measure,
    need_fixed,
    of_chances,
    of_outputs,
    of_predictions,
)
from anydepth.train.control.probe import Probe

AIM, ALARM = 0.5, 0.7
"""Shares of the allowed error: a move goes to where AIM of it is predicted; above ALARM of it, more steps are taken."""
LAST_AIM, LAST_ALARM, UP = 0.7, 0.85, 1.25
"""The same for the check after the last step, since no training follows that could spoil it; and the least factor on
the steps there."""
WORTH = 0.75
"""Fewer steps are taken only if they are at most this share of the present ones."""
FREE = 0.45
"""Share of the training in which checks are repeated and steps may be saved; then there are two more checks, the last
at the end."""
RARELY = 0.025
"""Checks are at most this share of the training apart."""
PATIENCE = 2
"""After more steps were taken, the next check waits so many times longer: the field must adapt first."""


class Memory(BaseModel):
    """What is remembered between checks."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)
    due: int = Field(ge=0)
    """The step before which the next check is."""
    wait: int = Field(ge=1)
    """Steps between checks."""
    failed: int = Field(default=0, ge=0)
    """The most steps in depth that were found too few."""


@CONTROLLERS.register("steady")
class Steady:
    """Keeps the error of the outputs, and in the end that of the predictions, between bounds with few changes."""

    def __init__(self, settings: SteadyControl):
        self.settings = settings
        self.examples: int | None = settings.examples

    def refuse(self, solvers: Solvers) -> None:
        need_fixed("steady", solvers)

    def start(self, probe: Probe) -> Decision:
        settings = self.settings
        step = first_step(probe, settings.rough)
        memory = Memory(due=settings.every, wait=settings.every)
        solvers = self._stepping(probe.solvers, max(self.floor(probe.solvers), ceil(1 / step)))
        return Decision("start", solvers, measured=known(step=step), memory=memory.model_dump())

    def recall(self, memory: dict[str, object]) -> Memory:
        return Memory.model_validate(memory)

    def is_due(self, clock: Clock, memory: dict[str, object]) -> bool:
        return clock.step >= self.recall(memory).due or clock.step in (self._settled(clock.total), clock.total)

    def check(self, probe: Probe, clock: Clock, memory: dict[str, object]) -> Decision:
        if clock.step == clock.total:
            return self.leave(probe, clock, memory)
        past, now, allowed = self.recall(memory), probe.solvers, self.allowed(clock)
        steps = _most(now)
        error = measure(probe, lambda count: self._stepping(now, count), steps, self.compare(probe, clock))
        here, needed = error.at(steps), max(self.floor(now), error.needed(AIM * allowed))
        passed = here <= ALARM * allowed
        after = self.choose(clock, past, steps, needed, passed)
        event = "keep" if after == steps else "shrink" if after > steps else "grow"
        measured = known(error=here, allowed=allowed, observed_order=error.observed)
        memory = self.after(clock, past, steps, after, passed).model_dump()
        return Decision(event, self._stepping(now, after), (passed,), measured, memory)

    def leave(self, probe: Probe, clock: Clock, memory: dict[str, object]) -> Decision:
        """After the last step: more steps, until what is measured with them, not predicted, passes."""
        now, limit, most = probe.solvers, self.settings.limit, self.settings.most_steps
        steps, compare, tests = _most(now), self.compare(probe, clock), []
        while True:
            error = measure(probe, lambda count: self._stepping(now, count), steps, compare, pieces=2)
            tests.append(error.at(steps) <= LAST_ALARM * limit)
            if tests[-1] or steps >= most:
                break
            steps = min(most, max(error.needed(LAST_AIM * limit), ceil(UP * steps)))
        measured = known(error=error.at(steps), allowed=limit, observed_order=error.observed)
        event = "keep" if steps == _most(now) else "shrink"
        return Decision(event, self._stepping(now, steps), tuple(tests), measured, memory)

    def compare(self, probe: Probe, clock: Clock) -> Compare:
        """What is compared: while the model learns, the chances of the classes, which a few examples determine well."""
        if not probe.has_classes:
            return of_outputs
        return of_chances if clock.step < self._settled(clock.total) else of_predictions

    def floor(self, solvers: Solvers) -> int:
        """The fewest steps that are ever taken."""
        return ceil(self.settings.least_steps ** (1 / min(solver.scheme.order for solver in solvers.values())))

    def allowed(self, clock: Clock) -> float:
        """The error that is allowed now: of the outputs while the model learns, then of the predictions."""
        return self.settings.rough if clock.step < self._settled(clock.total) else self.settings.limit

    def choose(self, clock: Clock, past: Memory, steps: int, needed: int, passed: bool) -> int:
        """The number of steps from now on: more after an alarm; fewer early on, if it is worth it and never failed."""
        if not passed:
            return min(self.settings.most_steps, max(needed, steps + 1))
        is_worth = past.failed < needed <= WORTH * steps
        return needed if is_worth and clock.step <= self._free(clock.total) else steps

    def after(self, clock: Clock, past: Memory, steps: int, after: int, passed: bool) -> Memory:
        """When to check again: soon after a change, ever later while nothing happens; and what failed."""
        every, total = self.settings.every, clock.total
        wait = min(2 * past.wait, max(every, int(RARELY * total)))
        if after != steps:
            wait = PATIENCE * every if after > steps else every
        free = self._free(total)
        due = next((place for place in (free, self._settled(total), total) if place > clock.step), 2 * total)
        due = min(due, clock.step + wait) if clock.step < free else due
        return Memory(due=due, wait=wait, failed=past.failed if passed else max(past.failed, steps))

    def _free(self, total: int) -> int:
        return min(int(FREE * total), self._settled(total))

    def _settled(self, total: int) -> int:
        """The step from which on predictions count."""
        return ceil(self.settings.settle * total)

    def _stepping(self, solvers: Solvers, steps: int) -> Solvers:
        count = min(steps, self.settings.most_steps)
        return {name: solver.changed(steps=count) for name, solver in solvers.items()}


def _most(solvers: Solvers) -> int:
    return max(solver.steps or 1 for solver in solvers.values())
