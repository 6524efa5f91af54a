"""A controller at work: it is shown the model, its decision is carried out, counted and logged."""

from typing import TYPE_CHECKING, Any

import numpy as np

from anydepth.data.table import Batch
from anydepth.runs.device import precision_of
from anydepth.train.control.controller import Clock, Controller, Decision
from anydepth.train.control.probe import Probe

if TYPE_CHECKING:
    from anydepth.train.trainer import Trainer


def steer(trainer: "Trainer", controller: Controller, batch: Batch | None) -> None:
    """Before a step of the optimiser on a batch, and without one after the last: let the controller start, or check if
    that is due."""
    progress = trainer.progress
    clock = Clock(progress.step, trainer.total)
    if clock.step and not controller.is_due(clock, progress.memory):
        return
    if controller.examples is not None:
        batches = _fixed_batches(trainer, controller.examples)
    else:
        assert batch is not None, "such a controller has nothing to look at after the last step"
        batches = [batch]
    config, device = trainer.config, trainer.device
    total = trainer.ranks.total
    probe = Probe(trainer.model, batches, trainer.facts.task, lambda: precision_of(config.training, device), total)
    before = probe.solvers
    decision = controller.check(probe, clock, progress.memory) if clock.step else controller.start(probe)
    progress.evaluations += probe.evaluations
    progress.check_evaluations += probe.evaluations
    progress.checks += len(decision.tests)
    progress.failed_checks += decision.tests.count(False)
    progress.changes += bool(clock.step) and decision.solvers != before
    progress.memory = decision.memory
    trainer.set_solvers(decision.solvers)
    trainer.log(_line(decision, clock, progress.evaluations))


def _fixed_batches(trainer: "Trainer", examples: int) -> list[Batch]:
    """The training examples that all checks of a run look at, as they are, in batches of the training's size."""
    part, config = trainer.train_part, trainer.config
    draw = np.random.default_rng((config.seed, 1))
    world = trainer.ranks.world
    chosen = draw.permutation(len(part))[:examples]
    chosen = np.sort(chosen[: max(1, len(chosen) // world) * world])  # as many on every rank, so that all go along
    mine, dtype = trainer.ranks.share(chosen), next(trainer.model.parameters()).dtype
    size = max(1, config.training.batch // world)
    batches = (part.batch(mine[start : start + size], trainer.facts) for start in range(0, len(mine), size))
    return [batch.to(trainer.device, dtype, config.training.channels_last) for batch in batches]


def _line(decision: Decision, clock: Clock, evaluations: int) -> dict[str, Any]:
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
