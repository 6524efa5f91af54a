"""One training over several processes, as torchrun starts them; alone, all of this does nothing."""

import os
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from anydepth.data.order import Indices
from anydepth.errors import ConfigError, RankLostError
from anydepth.runs.config import RunConfig
from anydepth.surgery.blocks import blocks_in
from anydepth.zoo.synced import add_up, synchronise

_PATIENCE = timedelta(minutes=30)
"""How long a rank waits for the others before it gives up; a dead one is noticed at once."""


_ALONE = ("adjoint", "kkt")
"""Gradient modes refused over several ranks: they evaluate the unit, and so its synced norms, again in backward."""
_LOST = ("gloo", "nccl", "connection")
"""Words in what the backends say when a rank is gone."""


@dataclass(frozen=True)
class Ranks:
    """This process among those that train one model."""

    rank: int = 0
    world: int = 1

    @property
    def is_first(self) -> bool:
        return self.rank == 0

    def share(self, indices: Indices) -> Indices:
        """This rank's part of a batch: neighbours, so that all ranks together see the batch in its order."""
        start, end = (len(indices) * rank // self.world for rank in (self.rank, self.rank + 1))
        return indices[start:end]

    def total(self, numbers: Sequence[float]) -> list[float]:
        """Numbers added up over all ranks; the same on each."""
        if self.world == 1:
            return list(numbers)
        device = "cuda" if dist.get_backend() == "nccl" else "cpu"
        return add_up(torch.tensor(numbers, dtype=torch.float64, device=device)).tolist()

    def weight(self, here: int, everywhere: int) -> float:
        """Factor on a rank's mean loss that makes the mean over ranks the mean over examples."""
        return 1.0 if self.world == 1 else here * self.world / max(1, everywhere)

    def check(self, config: RunConfig, batch: int) -> None:
        """Refuse what cannot be done over several ranks."""
        if batch < self.world:
            raise ConfigError(f"a batch has {batch} examples, too few for {self.world} ranks; use fewer ranks")
        if self.world > 1 and config.model.gradient in _ALONE:
            raise ConfigError(f"gradient {config.model.gradient!r} does not work over several ranks; use 'checkpoint'")
        examples = getattr(config.control, "examples", self.world)
        if examples < self.world:
            raise ConfigError(f"control.examples is {examples}, too few for {self.world} ranks; raise it")

    def together(self, model: nn.Module) -> nn.Module:
        """The model as one over all ranks: gradients averaged, batch statistics and adaptive steps common."""
        if self.world == 1:
            return model
        synchronise(model)
        for block in blocks_in(model).values():
            block.across = self.total
        return DistributedDataParallel(model, process_group=dist.new_group(), broadcast_buffers=False)

    def together_at(self, called: nn.Module, is_last: bool) -> AbstractContextManager:
        """Gradients of several passes of one step are averaged over the ranks in the last of them."""
        if is_last or not isinstance(called, DistributedDataParallel):
            return nullcontext()
        return called.no_sync()

    def wait(self) -> None:
        """Until all ranks are here."""
        if self.world > 1:
            dist.barrier()


ALONE = Ranks()


@contextmanager
def connected(device: torch.device) -> Iterator[Ranks]:
    """The ranks of this process, connected to each other as long as the context lasts."""
    world = _number("WORLD_SIZE", range(1, 2**16), "1")
    if world == 1:
        yield ALONE
        return
    _check_environment(world)
    if device.type == "cuda":
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
    _meet("nccl" if device.type == "cuda" else "gloo")
    try:
        yield Ranks(dist.get_rank(), world)
    except (RuntimeError, ConfigError) as error:
        cause = error.__cause__ if isinstance(error, ConfigError) and error.__cause__ is not None else error
        if _is_loss(cause):
            raise RankLostError(f"another rank was lost ({_in_short(cause)}); continue with --resume") from error
        raise
    finally:
        dist.destroy_process_group()


def _is_loss(cause: BaseException) -> bool:
    """Whether an error says that another rank is gone."""
    is_told = isinstance(cause, RuntimeError) and any(word in str(cause).lower() for word in _LOST)
    return is_told or isinstance(cause, dist.DistError)


def _in_short(error: BaseException) -> str:
    """What an error of a backend says, without the stack of its internals."""
    return str(error).split("Exception raised from")[0].strip()


def _number(name: str, valid: range, default: str | None = None) -> int:
    """A whole number of the environment, which torchrun sets."""
    given = os.environ.get(name, default)
    if given is None:
        raise ConfigError(f"{name} is not set, but WORLD_SIZE is; start the ranks with torchrun")
    if not given.isdecimal() or int(given) not in valid:
        expected = f"a whole number from {valid.start} to {valid.stop - 1}"
        raise ConfigError(f"{name} is {given!r:.40}, expected {expected}; start the ranks with torchrun")
    return int(given)


def _check_environment(world: int) -> None:
    """Refuse what the backend would, which it says in the words of its internals."""
    _number("RANK", range(world))
    _number("LOCAL_RANK", range(world), "0")
    _number("MASTER_PORT", range(1, 2**16))
    if not os.environ.get("MASTER_ADDR"):
        raise ConfigError("MASTER_ADDR is not set, but WORLD_SIZE is; start the ranks with torchrun")


def _meet(backend: str) -> None:
    """Connect with the other ranks."""
    try:
        dist.init_process_group(backend, timeout=_PATIENCE)
    except RuntimeError as error:
        raise RankLostError(
            f"could not meet the other ranks ({_in_short(error)}); start them anew, with --resume"
        ) from error


def seed_step(seed: int, step: int, rank: int) -> None:
    """Random numbers of one step (dropout) from (seed, step, rank) alone, so that nothing of them need be saved."""
    torch.manual_seed((seed * 1_000_003 + step) * 1_009 + rank)
