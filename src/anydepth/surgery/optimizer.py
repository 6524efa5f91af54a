"""Keeping an optimiser in step with parameters that have been replaced."""

from collections.abc import Callable, Iterable, Sequence
from warnings import warn

from torch import Tensor, nn
from torch.optim import LBFGS, SGD, Adam, AdamW, Optimizer

from anydepth.errors import AnydepthWarning, ConfigError
from anydepth.weights.protocol import Move

Replaced = dict[nn.Parameter, tuple[nn.Parameter, Move]]

_ADAM = {"exp_avg": "gradient", "exp_avg_sq": "gradient_squared", "max_exp_avg_sq": "gradient_squared"}
_RULES: dict[type[Optimizer], dict[str, str]] = {
    SGD: {"momentum_buffer": "weights"},
    Adam: _ADAM,
    AdamW: _ADAM,
}
"""How each moment moves: a velocity like the weights, averages of gradients by the dual map."""


def as_optimizers(given: Optimizer | Iterable[Optimizer]) -> list[Optimizer]:
    """One optimiser or several, as a list."""
    listed = list(given) if isinstance(given, Iterable) else [given]
    return [_unwrapped(optimizer) for optimizer in listed]


def _unwrapped(optimizer: object) -> Optimizer:
    """The optimiser inside the wrappers of Accelerate, Lightning and others, which have it as `optimizer`."""
    while isinstance(inner := getattr(optimizer, "optimizer", None), Optimizer):
        optimizer = inner
    if not isinstance(optimizer, Optimizer):
        raise ConfigError(f"optimizer must be a torch.optim.Optimizer, got {type(optimizer).__name__}")
    return optimizer


def carry_over(optimizers: Sequence[Optimizer], replaced: Replaced) -> None:
    """Put the new parameters into the old ones' groups, and move what is remembered about them."""
    seen: set[nn.Parameter] = set()
    for optimizer in optimizers:
        mine = {p for group in optimizer.param_groups for p in group["params"] if p in replaced}
        for group in optimizer.param_groups:
            group["params"][:] = [replaced[p][0] if p in replaced else p for p in group["params"]]
        seen |= mine
        if isinstance(optimizer, LBFGS):
            if mine:
                reset_history(optimizer, stacklevel=5)
        else:
            _move_state(optimizer, replaced)
    forgotten = [p for p in replaced if p not in seen and p.requires_grad]
    if forgotten:
        warn(
            f"{len(forgotten)} of {len(replaced)} grown parameters are in none of the given optimisers and will not "
            "train; add them with add_param_group, or pass every optimiser",
            AnydepthWarning,
            stacklevel=3,
        )


def reset_history(optimizer: LBFGS, stacklevel: int = 4) -> None:
    """Forget vectors that are as long as all parameters together were."""
    optimizer._params = optimizer.param_groups[0]["params"]
    optimizer._numel_cache = None  # it counts its values once
    if any(optimizer.state.values()):
        optimizer.state.clear()
        warn(
            "the history of LBFGS was reset: its vectors span all parameters, whose number has changed",
            AnydepthWarning,
            stacklevel=stacklevel,
        )


def _move_state(optimizer: Optimizer, replaced: Replaced) -> None:
    rules = _RULES.get(type(optimizer))
    reset = False
    for old, (new, move) in replaced.items():
        if old not in optimizer.state:
            continue
        state = optimizer.state.pop(old)
        if rules is None:
            reset = reset or bool(state)
            continue
        optimizer.state[new] = {
            key: _moved(value, getattr(move, rules.get(key, ""), None)) for key, value in state.items()
        }
    if reset:
        known = ", ".join(kind.__name__ for kind in _RULES)
        warn(
            f"the moments of {type(optimizer).__name__} were reset for the grown parameters; "
            f"they are carried over for {known}",
            AnydepthWarning,
            stacklevel=4,
        )


def _moved(value: object, rule: Callable[[Tensor], Tensor] | None) -> object:
    return rule(value) if rule is not None and isinstance(value, Tensor) else value
