"""Loading state dicts that carry forms: with an optimiser, and forms alone, before a distributed restore."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from os import PathLike
from typing import TypeVar

import torch
from torch import nn
from torch.optim import LBFGS, Optimizer

from anydepth.block.form import KEY, SavedForm, is_form
from anydepth.errors import ModelFileError
from anydepth.surgery.blocks import blocks_of
from anydepth.surgery.optimizer import as_optimizers, reset_history

Model = TypeVar("Model", bound=nn.Module)


def load_state_dict(
    model: nn.Module,
    state_dict: Mapping[str, object],
    strict: bool = True,
    optimizer: Optimizer | Iterable[Optimizer] | None = None,
) -> object:
    """`model.load_state_dict`, after which the optimisers hold the model's parameters, in the same groups and order.

    Blocks take on the forms of the state dict. What an optimiser remembers about parameters that change their shape is
    dropped: load its own state dict next.
    """
    with _swapped(model, [] if optimizer is None else as_optimizers(optimizer)):
        return model.load_state_dict(state_dict, strict=strict)


@contextmanager
def _swapped(model: nn.Module, optimizers: Sequence[Optimizer]) -> Iterator[None]:
    """Parameters that are replaced inside are replaced in the optimisers too, which forget what they knew of them."""
    before = dict(model.named_parameters())
    yield
    after = dict(model.named_parameters())
    replaced = {old: after[name] for name, old in before.items() if name in after and after[name] is not old}
    for each in optimizers:
        for group in each.param_groups:
            group["params"][:] = [replaced.get(parameter, parameter) for parameter in group["params"]]
        if isinstance(each, LBFGS) and replaced:
            reset_history(each)
        for old in replaced:
            each.state.pop(old, None)


def adopt_form(model: nn.Module, path: str | PathLike[str]) -> nn.Module:
    """Give a model's blocks the forms of a checkpoint of torch.distributed, whose tensors can then be restored.

    Such a restore writes into the tensors that are there, so that they must have the checkpoint's shapes first.
    """
    return adopt_forms(model, _forms_at(path), path)


def adopt_forms(
    model: Model,
    forms: Mapping[str, object],
    origin: str | PathLike[str],
    optimizer: Optimizer | Iterable[Optimizer] | None = None,
) -> Model:
    """Give a model's blocks forms by the keys of a state dict; the optimisers take on the new parameters."""
    blocks = blocks_of(model)
    ends = {name: f"{name}.{KEY}" if name else KEY for name in blocks}
    found = {name: [key for key in forms if key == end or key.endswith(f".{end}")] for name, end in ends.items()}
    for name, keys in found.items():
        if len(keys) != 1:
            raise ModelFileError(f"the checkpoint {origin} has {len(keys)} forms for block {name!r}, expected one")
    with _swapped(model, [] if optimizer is None else as_optimizers(optimizer)):
        for name, (key,) in found.items():
            blocks[name].adopt(SavedForm.decode(forms[key]))
    return model


def _forms_at(path: str | PathLike[str]) -> dict[str, torch.Tensor]:
    from torch.distributed.checkpoint.filesystem import FileSystemReader  # these take a second to import
    from torch.distributed.checkpoint.state_dict_loader import load

    kept = FileSystemReader(path).read_metadata().state_dict_metadata
    forms = {key: torch.empty(entry.size, dtype=torch.uint8) for key, entry in kept.items() if is_form(key)}  # pyright: ignore
    load(forms, checkpoint_id=path, no_dist=True)
    return forms
