"""The training loop."""

from contextlib import nullcontext
from math import isfinite
from signal import SIGTERM
from time import monotonic, perf_counter

import numpy as np
from torch import Tensor, nn
from torch.nn.utils import clip_grads_with_norm_, get_total_norm

from anydepth.artifact import reached
from anydepth.data.order import Draw, Indices, batches, in_steps
from anydepth.data.table import Augment, Batch, Table
from anydepth.errors import NumericalError, StoppedError
from anydepth.json_values import JsonObject
from anydepth.measure.distillation import lesson
from anydepth.measure.evaluation import METRIC, Score, Tally, evaluate, loss_of, metric, nfe_by_plan, nfe_of, tally
from anydepth.runs.device import device_of, precision_of
from anydepth.runs.folder import Run
from anydepth.runs.progress import Progress, Status, Watch
from anydepth.surgery.blocks import blocks_in
from anydepth.surgery.summary import summary
from anydepth.train.any_depth import passes
from anydepth.train.control.controller import Solvers, make_controller
from anydepth.train.control.probe import put_solvers, solvers_of
from anydepth.train.control.steer import Steering
from anydepth.train.depth_penalties import KineticEnergy, roughness
from anydepth.train.growth import grow
from anydepth.train.interrupt import Interrupt
from anydepth.train.optimization import averaged_copy, make_optimizer, penalty, places, rate, set_rate, update_average
from anydepth.train.prepare import Prepared
from anydepth.train.ranks import ALONE, Ranks, seed_step
from anydepth.train.snapshot import Training, resume_at, resume_newest, write_snapshot
from anydepth.train.stall import Stall
from anydepth.train.vary import drawing_of


class Trainer(Training):
    """A model, its optimiser and its data; `fit` trains from wherever `progress` stands."""

    def __init__(self, prepared: Prepared, run: Run, watch: Watch | None = None, ranks: Ranks = ALONE):
        config, model = prepared.config, prepared.model
        super().__init__(
            config=config,
            run=run,
            model=model,
            average=None if config.training.ema is None else averaged_copy(model),
            optimizer=make_optimizer(model, config.optimizer),
            progress=Progress(),
            controller=make_controller(config.control),
            total=prepared.total,
            places=places(config.refine.at, config.refine.unit, prepared.per_epoch),
        )
        self.facts, self.watch, self.per_epoch = prepared.facts, watch or Watch(), prepared.per_epoch
        self.train_part, self.validation = prepared.train, prepared.validation
        self.device, self.ranks = device_of(config), ranks
        ranks.check(config, min(config.training.batch, len(prepared.train)))
        control = self.controller
        self._steering = None if control is None else Steering(control, prepared, self.device, ranks)
        self.stall, self.drawing = Stall(config.refine), drawing_of(config)
        self._precision = precision_of(config.training, self.device)
        self._saved = monotonic()
        self._form = self._shape()
        self._wrap()

    def _wrap(self) -> None:
        """What is called in training: the model, or its copies on all ranks together."""
        self._called = self.ranks.together(self.model)
        self._blocks = tuple(blocks_in(self.model).values())

    @property
    def result(self) -> nn.Module:
        """The model that training makes: the average where one is kept."""
        return self.model if self.average is None else self.average

    # The loop

    def fit(self, interrupt: Interrupt | None = None) -> nn.Module:
        """Train to the end, from wherever the training is."""
        progress, began = self.progress, perf_counter() - self.progress.seconds
        for step, epoch, indices in in_steps(progress.step, self.total, self.per_epoch, self.order):
            if step in self.refine_at[progress.level :]:
                self._refine()
            loss, sums, lr, stop = self.take_step(indices, epoch, interrupt)
            progress.step += 1
            progress.sums += sums
            if progress.step == self.total:
                self.steer(None)
            progress.seconds = perf_counter() - began
            self.watch.step(self._status(epoch, loss))
            if progress.step % self.config.log_every == 0:
                line = {"kind": "step", "step": progress.step, "epoch": epoch, "train_batch_loss": loss, "lr": lr}
                self.log(line)
            if progress.step % self.per_epoch == 0 or progress.step == self.total:
                self._end_epoch(epoch + 1, lr)
            self._save_if_due(stop)
        return self.result

    def order(self, epoch: int = 0) -> list[Indices]:
        draw = Draw(self.config.seed, epoch)
        return batches(draw, len(self.train_part), self.config.training.batch, self.train_part.lengths)

    def take_step(
        self, indices: Indices, epoch: int, interrupt: Interrupt | None = None
    ) -> tuple[float, Tally, float, int]:
        """One step of the optimiser, not taken when loss or gradient is not finite; also the signal that came."""
        config, step = self.config, self.progress.step
        lr = config.optimizer.lr * rate(config.schedule, step, self.total, self.per_epoch)
        set_rate(self.optimizer, lr)
        augment, draw = Augment(config.data.crop, config.data.flip, config.data.hide), Draw(config.seed, epoch)
        mine = self.ranks.share(indices)
        batch = self.train_part.batch(mine, self.facts, augment if any(augment) else None, draw)
        dtype = next(self.model.parameters()).dtype
        batch = batch.to(self.device, dtype, config.training.channels_last)
        self.steer(batch)
        seed_step(config.seed, step, self.ranks.rank)
        self.model.train()
        sums, signal, stop = self._learn(batch, lr, interrupt)
        self._check_and_clip(lr)
        self.optimizer.step()
        if self.average is not None:
            update_average(self.average, self.model, config.training.ema or 0.0, step)
        return sums.loss / max(1, sums.count), sums, lr, signal or (SIGTERM if stop else 0)

    def _learn(self, batch: Batch, lr: float, interrupt: Interrupt | None) -> tuple[Tally, int, float]:
        """The gradients of all passes of a step: the model as it is, then forms of it, taught by its outputs."""
        sums, signal, stop, weight, taught = Tally(), 0, 0.0, 1.0, None
        drawn = self.drawing.drawn(self.model, self.progress.step)
        for place, (share, _) in enumerate(passes(self.model, drawn)):
            with self.ranks.together_at(self._called, place == len(drawn) - 1):
                outputs, loss = self._pass(batch, taught)
                if taught is None:
                    taught, here = outputs.detach(), tally(self.facts.task, outputs, batch.targets, loss.item())
                    signal = 0 if interrupt is None or interrupt.received is None else interrupt.received
                    *numbers, stop = self.ranks.total((*here.numbers(), float(signal)))
                    for block in self._blocks:
                        block.check_inputs()
                    self._check_finite("loss", numbers[0], lr)
                    sums = Tally(numbers[0], numbers[1], int(numbers[2]))
                    weight = self.ranks.weight(here.count, sums.count)
                    self.optimizer.zero_grad()
                    loss = self._penalised(loss, share * weight)
                else:
                    loss = loss * (share * weight)
                loss.backward()
        return sums, signal, stop

    def _pass(self, batch: Batch, taught: Tensor | None) -> tuple[Tensor, Tensor]:
        """Outputs and loss of the model in the form that it has now; `taught` are those of the model as it is."""
        training, task = self.config.training, self.facts.task
        energy = KineticEnergy() if training.penalty_kinetic and taught is None else None
        with self._precision, energy() if energy is not None else nullcontext():
            outputs = self._called(*batch.inputs)
            self.progress.evaluations += nfe_of(self.model)
            depths = training.any_depth
            if taught is None or depths is None:
                loss = loss_of(task, outputs, batch.targets, training.label_smoothing)
            else:
                shares = depths.distill, depths.temperature, training.label_smoothing
                loss = lesson(task, outputs, taught, batch.targets, *shares)
        return outputs, loss if energy is None else loss + training.penalty_kinetic * energy.total()

    def _penalised(self, loss: Tensor, weight: float) -> Tensor:
        """The loss with its weight, and the penalties on weights, which have none."""
        training = self.config.training
        added = penalty(self.model, training.penalty_initial, training.penalty_evolution)
        rough = roughness(self.model) if training.penalty_roughness else None
        loss = loss * weight if added is None else loss * weight + added
        return loss if rough is None else loss + training.penalty_roughness * rough

    def steer(self, batch: Batch | None) -> None:
        """Let the controller look, if there is one, and carry out what it decides."""
        found = None if self._steering is None else self._steering.decide(self.model, self.progress, batch)
        if found is not None:
            solvers, line = found
            self.set_solvers(solvers)
            self.log(line)

    def _check_and_clip(self, lr: float) -> None:
        norm = get_total_norm([p.grad for p in self.model.parameters() if p.grad is not None])
        self._check_finite("gradient", norm.item(), lr)
        if self.config.training.clip is not None:
            clip_grads_with_norm_(self.model.parameters(), self.config.training.clip, norm)

    def _check_finite(self, what: str, value: float, lr: float) -> None:
        if not isfinite(value):
            raise NumericalError(
                f"the {what} is {value} at step {self.progress.step + 1} of {self.total}, learning rate {lr:g}; "
                "the weights were not updated; try a smaller optimizer.lr, schedule.warmup, training.clip, or more "
                "steps in depth"
            )

    # Growing

    def _refine(self) -> None:
        """Grow the model as a transaction: save, grow with the optimiser, save; and note what growing alone does."""
        self.save()
        before, scores, solvers = self._form, self._validated("before"), solvers_of(self.model)
        grow(self.model, self.config.refine, self.progress.level, self.optimizer)
        reached("model grown")
        if self.average is not None:
            grow(self.average, self.config.refine, self.progress.level, None)
            self.average.requires_grad_(False)
        self._wrap()
        self.progress.level += 1
        self._form = self._shape()
        if self.controller is not None:
            self.set_solvers(solvers)  # which may have steps of different sizes
        changes = {name: {"from": before[name], "to": self._form[name]} for name in before}
        self.log({"kind": "refine", "step": self.progress.step, **changes, **scores, **self._validated("after")})
        reached("refinement logged")
        self.save()

    def _validated(self, when: str) -> dict[str, object]:
        return {} if self.validation is None else self.score(self.validation).named(f"validation_{when}")

    def set_solvers(self, solvers: Solvers) -> None:
        """Run all blocks as given from now on."""
        for model in (self.model, self.average):
            if model is not None:
                put_solvers(model, solvers)
        self._form = self._shape()

    # Saving and going on

    def save(self) -> None:
        """Write a checkpoint; the first rank does."""
        self._saved = monotonic()
        if self.ranks.is_first:
            write_snapshot(self)

    def resume(self) -> bool:
        """Go back to the newest whole checkpoint, if there is one; the first rank chooses it."""
        chosen = resume_newest(self) if self.ranks.is_first else None
        step, level, is_there = self.ranks.total((0.0, 0.0, 0.0) if chosen is None else (*map(float, chosen), 1.0))
        if is_there and not self.ranks.is_first:
            resume_at(self, int(step), int(level))
        self._form = self._shape()
        self._wrap()
        return bool(is_there)

    def _save_if_due(self, signal: int) -> None:
        is_over = self.progress.step == self.total
        is_old = monotonic() - self._saved >= 60 * self.config.checkpoint_minutes
        if is_over or signal or is_old:
            self.save()
        if signal and not is_over:
            self.ranks.wait()
            raise StoppedError(
                f"stopped by signal {signal} after step {self.progress.step} of {self.total}, which is saved; "
                "continue with --resume",
                signal,
            )

    # Scores and metrics

    def score(self, part: Table) -> Score:
        """The trained model on a part of the data."""
        precision = precision_of(self.config.training, self.device)
        batch, total = self.config.evaluation.batch, self.ranks.total
        mine = part if self.ranks.world == 1 else part.take(self.ranks.share(np.arange(len(part))))
        return evaluate(self.result, mine, self.facts, batch, precision, total=total)

    def log(self, line: dict[str, object]) -> None:
        if self.ranks.is_first:
            self.run.log(line)
            self.watch.event(line)

    def _end_epoch(self, epoch: int, lr: float) -> None:
        progress, sums = self.progress, self.progress.sums
        is_due = epoch % self.config.evaluation.every == 0 or progress.step == self.total
        line = {
            "kind": "epoch",
            "epoch": epoch,
            "step": progress.step,
            "train_loss": sums.loss / max(1, sums.count),
            f"train_{METRIC[self.facts.task]}": metric(self.facts.task, sums),
            "lr": lr,
            "nfe": nfe_by_plan(self.model),
            **progress.accounts(self.controller is not None),
            **self._form,
            "seconds": round(progress.seconds, 3),
        }
        if self.validation is not None and is_due:
            line |= self.score(self.validation).named("validation")
            self.stall.note(progress, line["validation_loss"], self.total)
        progress.sums = Tally()
        self.log(line)

    def _shape(self) -> JsonObject:
        """What the model is now, in JSON values."""
        found = summary(self.model)
        return {
            "weights": ", ".join(dict.fromkeys(row.form.weights for row in found.rows)),
            "solver": ", ".join(dict.fromkeys(row.form.solver for row in found.rows)),
            "parameters": found.parameters,
        }

    def _status(self, epoch: int, loss: float) -> Status:
        task, form = self.facts.task, self._form
        return Status(
            step=self.progress.step,
            total=self.total,
            epoch=epoch,
            loss=loss,
            metric=METRIC[task],
            value=metric(task, self.progress.sums),
            nfe=nfe_by_plan(self.model),
            depth=f"{form['weights']} {form['solver']}",
            parameters=form["parameters"],
        )
