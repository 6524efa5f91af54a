"""Lightning, Accelerate and the Trainer of transformers: a refinement, a checkpoint, and a resume to the same bits."""

import warnings

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import anydepth as ad

pytestmark = [pytest.mark.integrations, pytest.mark.filterwarnings("ignore")]

X = torch.linspace(-1, 1, 48, dtype=torch.float32).reshape(16, 3)
Y = (X.sum(1) > 0).long()
EPOCHS, AT = 4, 2


def net():
    torch.manual_seed(0)
    block = ad.ContinuousBlock(lambda: ad.units.MLP(3), "linear", 2, scheme="rk4", steps=2)
    return nn.Sequential(nn.Linear(3, 3), block, nn.BatchNorm1d(3), nn.Linear(3, 2))


def assert_same(one, other):
    """Weights, solver and outputs."""
    assert other[1].solver == one[1].solver
    assert one[1].size == 3
    for name, tensor in one.state_dict().items():
        assert torch.equal(other.state_dict()[name], tensor), name
    assert torch.equal(other.eval()(X), one.eval()(X))


# Lightning


def lightning_fit(folder, epochs, resume=None, callbacks=()):
    lightning = pytest.importorskip("lightning", reason="lightning is not installed: pip install anydepth[lightning]")
    from anydepth.integrations.lightning import Refine

    class Task(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.net = net()

        def training_step(self, batch, _):
            return nn.functional.cross_entropy(self.net(batch[0]), batch[1])

        def validation_step(self, batch, _):
            self.log("loss", nn.functional.cross_entropy(self.net(batch[0]), batch[1]))

        def configure_optimizers(self):
            optimizer = torch.optim.AdamW(ad.param_groups(self, 0.1), lr=0.05)
            return [optimizer], [torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)]

    quiet = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False, "accelerator": "cpu"}
    options = {"default_root_dir": folder, "enable_checkpointing": False, "num_sanity_val_steps": 0}
    trainer = lightning.Trainer(max_epochs=epochs, callbacks=[Refine([AT]), *callbacks], **quiet, **options)
    task, loader = Task(), DataLoader(TensorDataset(X, Y), 4)
    trainer.fit(task, loader, loader, ckpt_path=resume)
    trainer.save_checkpoint(folder / f"{epochs}.ckpt")
    return task.net


@pytest.mark.parametrize("stop", [AT, AT + 1])
def test_lightning_resumes_to_the_same_weights_solver_and_outputs(tmp_path, stop):
    """Stopped before the refinement, and after it."""
    whole = lightning_fit(tmp_path, EPOCHS)
    lightning_fit(tmp_path, stop)
    resumed = lightning_fit(tmp_path, EPOCHS, resume=tmp_path / f"{stop}.ckpt")
    assert_same(whole, resumed)


def test_lightning_judges_the_model(tmp_path):
    pytest.importorskip("lightning", reason="lightning is not installed: pip install anydepth[lightning]")
    from anydepth.integrations.lightning import CheckProper

    judge = CheckProper(every=2, limit=2)
    lightning_fit(tmp_path, 3, callbacks=[judge])
    assert list(judge.verdicts) == [1]
    assert isinstance(judge.verdicts[1], ad.Verdict)
    with pytest.raises(ad.ConfigError, match="at least 1"):
        CheckProper(every=0)


# Accelerate


def accelerate_fit(folder, epochs, resume=None):
    accelerate = pytest.importorskip(
        "accelerate", reason="accelerate is not installed: pip install anydepth[accelerate]"
    )
    from anydepth.integrations.accelerate import follow_forms

    accelerator = accelerate.Accelerator(cpu=True)
    follow_forms(accelerator)
    model = net()
    optimizer = torch.optim.AdamW(ad.param_groups(model, 0.1), lr=0.05)
    model, optimizer, loader = accelerator.prepare(model, optimizer, DataLoader(TensorDataset(X, Y), 4))
    begin = 0
    if resume is not None:
        accelerator.load_state(folder / f"state{resume}")
        begin = resume
    for epoch in range(begin, epochs):
        if epoch == AT:
            with warnings.catch_warnings():
                warnings.simplefilter("error", ad.AnydepthWarning)
                ad.refine(accelerator.unwrap_model(model), optimizer=optimizer)
        for x, y in loader:
            optimizer.zero_grad()
            accelerator.backward(nn.functional.cross_entropy(model(x), y))
            optimizer.step()
    accelerator.save_state(folder / f"state{epochs}")
    return accelerator.unwrap_model(model)


@pytest.mark.parametrize("stop", [AT, AT + 1])
def test_accelerate_resumes_to_the_same_weights_solver_and_outputs(tmp_path, stop):
    whole = accelerate_fit(tmp_path, EPOCHS)
    accelerate_fit(tmp_path, stop)
    assert_same(whole, accelerate_fit(tmp_path, EPOCHS, resume=stop))


# The Trainer of transformers


class Scored(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = net()

    def forward(self, x, labels=None):
        logits = self.net(x)
        loss = None if labels is None else nn.functional.cross_entropy(logits, labels)
        return {"loss": loss, "logits": logits} if loss is not None else {"logits": logits}


def trainer_fit(folder, epochs, resume=None):
    transformers = pytest.importorskip("transformers", reason="transformers is not installed: pip install transformers")
    pytest.importorskip("accelerate", reason="accelerate is not installed: pip install anydepth[accelerate]")
    from anydepth.integrations.transformers import Refine

    options = {
        "report_to": [],
        "disable_tqdm": True,
        "use_cpu": True,
        "save_strategy": "epoch",
        "logging_strategy": "no",
    }
    rates = {"learning_rate": 0.05, "lr_scheduler_type": "constant", "per_device_train_batch_size": 4}
    args = transformers.TrainingArguments(str(folder), num_train_epochs=epochs, **options, **rates)
    data = [{"x": x, "labels": y} for x, y in zip(X, Y, strict=True)]
    trainer = transformers.Trainer(Scored(), args, train_dataset=data, callbacks=[Refine([AT])])
    trainer.train(resume_from_checkpoint=None if resume is None else str(folder / f"checkpoint-{4 * resume}"))
    return trainer.model.net


@pytest.mark.parametrize("stop", [AT, AT + 1])
def test_the_trainer_resumes_to_the_same_weights_solver_and_outputs(tmp_path, stop):
    whole = trainer_fit(tmp_path / "whole", EPOCHS)
    trainer_fit(tmp_path / "parts", stop)
    assert_same(whole, trainer_fit(tmp_path / "parts", EPOCHS, resume=stop))


def test_a_schedule_refuses_what_it_cannot_do():
    from anydepth.integrations.schedule import Schedule

    with pytest.raises(ad.ConfigError, match="whole numbers from 0"):
        Schedule([1.5])
    with pytest.raises(ad.ConfigError, match="must be a dict"):
        Schedule({1: 3})
    with pytest.raises(ad.ConfigError, match="2 processes"):
        Schedule([0]).run(0, net(), None, 2)
    schedule, model = Schedule({0: {"steps": 3}}), net()
    assert schedule.run(0, model, None, 1)
    assert not schedule.run(0, model, None, 1)
    assert model[1].steps == 3
