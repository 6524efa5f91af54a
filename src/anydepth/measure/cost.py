"""What a forward pass costs: time, floating-point operations, and memory."""

import os
from collections.abc import Callable, Hashable, Mapping
from pathlib import Path
from time import perf_counter, sleep
from typing import TypeVar
from weakref import finalize

import torch
from torch import Tensor, nn
from torch._ops import OpOverload
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import FlopCounterMode

Name = TypeVar("Name", bound=Hashable)


def interleaved(runs: Mapping[Name, Callable[[], object]], rounds: int, warm_up: int = 2) -> dict[Name, list[float]]:
    """Seconds of every run, the runs taking turns, so that a machine that slows down slows all of them."""
    for _ in range(warm_up):
        for run in runs.values():
            run()
    seconds: dict[Name, list[float]] = {name: [] for name in runs}
    for _ in range(rounds):
        for name, run in runs.items():
            began = perf_counter()
            run()
            seconds[name].append(perf_counter() - began)
    return seconds


def is_busy(seconds: float = 0.25) -> bool:
    """Whether, while we sleep, others are at work on cores that our threads will want."""
    before = work_so_far()
    sleep(seconds)
    others = (work_so_far() - before) / seconds
    return others + torch.get_num_threads() > (os.cpu_count() or 1) + 0.5


def work_so_far(source: Path = Path("/proc/stat")) -> float:
    """Seconds that all cores together have worked; always 0 where the system does not tell."""
    try:
        user, nice, system, _idle, _waiting, *interrupts = map(int, source.read_text().split("\n")[0].split()[1:8])
    except (OSError, ValueError):
        return 0.0
    return (user + nice + system + sum(interrupts)) / os.sysconf("SC_CLK_TCK")


def flops(run: Callable[[], object]) -> int:
    """Floating-point operations of one call, those of matrix products, convolutions and attention; two per product."""
    counter = FlopCounterMode(display=False)
    with counter:
        run()
    return counter.get_total_flops()


def peak_bytes(run: Callable[[], object]) -> int:
    """The most bytes of tensors made in one call that are alive at the same time.

    What a kernel needs for itself while it runs, and what the allocator keeps in reserve, are not seen.
    """
    counter = _LiveBytes()
    with counter:
        result = run()
    del result
    return counter.peak


def weight_bytes(model: nn.Module) -> int:
    """Of all parameters and buffers."""
    return sum(tensor.numel() * tensor.element_size() for tensor in (*model.parameters(), *model.buffers()))


class _LiveBytes(TorchDispatchMode):
    """Follows the storage of every result from its making to its end; operations made of others are seen in parts."""

    def __init__(self) -> None:
        super().__init__()
        self.live = self.peak = 0
        self._known: set[int] = set()

    def __torch_dispatch__(
        self, func: OpOverload, types: object, args: tuple = (), kwargs: dict[str, object] | None = None
    ) -> object:
        kwargs = kwargs or {}
        with self:
            out = func.decompose(*args, **kwargs)
        if out is not NotImplemented:
            return out
        given = {_key(leaf) for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)}
        out = func(*args, **kwargs)
        for leaf in tree_leaves(out):
            if isinstance(leaf, Tensor) and _key(leaf) not in given:
                self._follow(leaf)
        return out

    def _follow(self, tensor: Tensor) -> None:
        key, storage = _key(tensor), tensor.untyped_storage()
        if key not in self._known:
            self._known.add(key)
            self.live += storage.nbytes()
            self.peak = max(self.peak, self.live)
            finalize(storage, self._forget, key, storage.nbytes())

    def _forget(self, key: int, size: int) -> None:
        self._known.discard(key)
        self.live -= size


def _key(tensor: Tensor) -> int:
    return tensor.untyped_storage()._cdata


def synchronised(run: Callable[[], Tensor], device: torch.device) -> Callable[[], object]:
    """The same call, over only when the device has done its work."""
    if device.type != "cuda":
        return run

    def wait() -> None:
        run()
        torch.cuda.synchronize(device)

    return wait
