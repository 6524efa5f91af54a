"""A controller at work: it is shown the model, and its decision is counted."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import nn

from anydepth.data.table import Batch
from anydepth.runs.device import precision_of
from anydepth.runs.progress import Progress
from anydepth.train.control.controller import Clock, Controller, Decision, Solvers
from anydepth.train.control.probe import Probe
from anydepth.train.prepare import Prepared
from anydepth.train.ranks import Ranks


@dataclass(frozen=True)
class Steering:
    """A controller, and the training that it steers."""

    controller: Controller
    prepared: Prepared
    device: torch.device
    ranks: Ranks

    def decide(
        self, model: nn.Module, progress: Progress, batch: Batch | None
    ) -> tuple[Solvers, dict[str, object]] | None:
        """Before a step of the optimiser on a batch, and without one after the last: let the controller start, or
        check if that is due. The solvers from now on, and a line of metrics."""
        controller, prepared = self.controller, self.prepared
        clock = Clock(progress.step, prepared.total)
        if clock.step and not controller.is_due(clock, progress.memory):
            return None
        if controller.examples is not None:
            batches = self._fixed_batches(model, controller.examples)
        else:
            assert batch is not None, "such a controller has nothing to look at after the last step"
            batches = [batch]
        settings, device = prepared.config.training, self.device
        probe = Probe(model, batches, prepared.facts.task, lambda: precision_of(settings, device), self.ranks.total)
        before = probe.solvers
        decision = controller.check(probe, clock, progress.memory) if clock.step else controller.start(probe)
        progress.evaluations += probe.evaluations
        progress.check_evaluations += probe.evaluations
        progress.checks += len(decision.tests)
        progress.failed_checks += decision.tests.count(False)
        progress.changes += bool(clock.step) and decision.solvers != before
        progress.memory = decision.memory
        return decision.solvers, _line(decision, clock, progress.evaluations)

    def _fixed_batches(self, model: nn.Module, examples: int) -> list[Batch]:
        """The training examples that all checks look at, as they are, in batches of the training's size."""
        part, config, facts = self.prepared.train, self.prepared.config, self.prepared.facts
        draw = np.random.default_rng((config.seed, 1))
        world = self.ranks.world
        chosen = draw.permutation(len(part))[:examples]
        chosen = np.sort(chosen[: max(1, len(chosen) // world) * world])  # as many on every rank, so that all go along
        mine, dtype = self.ranks.share(chosen), next(model.parameters()).dtype
        size = max(1, config.training.batch // world)
        batches = (part.batch(mine[start : start + size], facts) for start in range(0, len(mine), size))
        return [batch.to(self.device, dtype, config.training.channels_last) for batch in batches]


def _line(decision: Decision, clock: Clock, evaluations: int) -> dict[str, object]:
    solver = next(iter(decision.solvers.values()))
    fineness = {"rtol": solver.tolerance.rtol} if solver.tolerance is not None else {"steps": solver.steps}
    return {
        "kind": "control",
        "step": clock.step,
        "evaluations": evaluations,
        "solver": ", ".join(dict.fromkeys(map(str, decision.solvers.values()))),
        **fineness,
        "event": decision.event,
        "passed": all(decision.tests),
        "measured": decision.measured,
    }
