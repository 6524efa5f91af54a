"""Which part each tensor of a unit plays, and lifting a unit's tensors to functions of depth."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from fnmatch import fnmatchcase

import torch
from torch import Tensor, nn

from anydepth.block.passes import Kind, Lifted, Roles
from anydepth.errors import ConfigError, UnitError, choices
from anydepth.executor.executor import TABLES, Image
from anydepth.executor.follow import leads_to


def roles_of(unit: nn.Module, state: Iterable[str] = (), positive: Iterable[str] = ()) -> Roles:
    """Parameters and running statistics are lifted, and the buffers named in `state` and `positive`, also by patterns.

    Whole-number scalars are counters; every other buffer is a constant shared by all depths.
    """
    buffers = dict(unit.named_buffers())
    kinds = {name: Kind.PARAMETER for name, _ in unit.named_parameters()}
    kinds |= {name: kind for name, kind in _statistics(unit) if name in buffers}
    for names, kind in ((state, Kind.STATE), (positive, Kind.POSITIVE)):
        for pattern in (names,) if isinstance(names, str) else names:
            fitting = [name for name in buffers if name == pattern or fnmatchcase(name, pattern)]
            if not fitting:
                raise ConfigError(
                    f"{kind.value} {pattern!r} is not a buffer of {type(unit).__name__}; {choices(pattern, buffers)}"
                )
            if pattern not in buffers:  # a pattern takes what it can; a name means what it says
                fitting = [name for name in fitting if buffers[name].is_floating_point()] or fitting
            for name in fitting:
                if not buffers[name].is_floating_point():
                    raise ConfigError(f"{kind.value} {name!r} must be floating point, got {buffers[name].dtype}")
                kinds[name] = kind
    rest = [name for name in buffers if name not in kinds]
    counters = tuple(name for name in rest if buffers[name].dim() == 0 and not buffers[name].is_floating_point())
    return Roles(kinds, counters, tuple(name for name in rest if name not in counters))


def _statistics(unit: nn.Module) -> Iterable[tuple[str, Kind]]:
    """Running statistics of normalisation layers: any module that keeps a running mean and variance."""
    for path, module in unit.named_modules():
        if {"running_mean", "running_var"} <= module._buffers.keys():
            prefix = f"{path}." if path else ""
            yield prefix + "running_mean", Kind.STATE
            yield prefix + "running_var", Kind.POSITIVE


_UNFILLED: ContextVar[bool] = ContextVar("unfilled", default=False)


@contextmanager
def unfilled() -> Iterator[None]:
    """Blocks made inside take one unit for all depths and no memory of their own: they are to be filled by loading."""
    token = _UNFILLED.set(True)
    try:
        yield
    finally:
        _UNFILLED.reset(token)


def make_units(factory: Callable[[], nn.Module], count: int, init: str) -> list[nn.Module]:
    """`count` units: drawn independently, or copies of one."""
    if init not in ("independent", "shared"):
        raise ConfigError(f"unknown init {init!r}; {choices(init, ('independent', 'shared'))}")
    if isinstance(factory, nn.Module):
        if init != "shared":
            name = type(factory).__name__
            raise ConfigError(f"the unit must be a function that makes units, got a {name}; write lambda: {name}(...)")
        return [private(factory)] * count
    if not callable(factory):
        raise ConfigError(f"the unit must be a function that makes nn.Modules, got {factory!r}")
    if _UNFILLED.get():
        return [_checked(factory())][:count]
    units = [_checked(factory()) for _ in range(count if init == "independent" else 1)]
    return units if init == "independent" else units * count


def _checked(unit: object) -> nn.Module:
    if not isinstance(unit, nn.Module):
        raise ConfigError(f"the unit's function must return an nn.Module, got {type(unit).__name__}")
    if any(isinstance(module, torch.jit.ScriptModule) for module in unit.modules()):
        raise UnitError(
            f"unit {type(unit).__name__} is scripted; its weights cannot be replaced; give it before torch.jit.script"
        )
    if any(nn.parameter.is_lazy(tensor) for tensor in (*unit.parameters(), *unit.buffers())):
        raise UnitError(f"unit {type(unit).__name__} has lazy parameters; give it its sizes at construction")
    return unit


def lift(units: list[nn.Module], lifted: Mapping[str, Lifted]) -> nn.Module:
    """The first unit as modules of the block's own, its lifted tensors replaced by what their functions store."""
    tables = [tensors_of(unit) for unit in units]
    check_own_tensors(units[0])
    unit = private(units[0])
    stored = {}
    for name, part in lifted.items():
        if _UNFILLED.get():
            sample = tables[0][name].detach()
            stored[name] = sample.expand(part.function.size, *sample.shape)
            continue
        samples = [table.get(name) for table in tables[: part.function.size]]
        first = tables[0][name]
        if any(sample is None or sample.shape != first.shape for sample in samples):
            raise UnitError(f"the function made units that differ in {name!r}; it must make the same unit every time")
        stacked = torch.stack([part.kind.encode(sample.detach()) for sample in samples if sample is not None])
        stored[name] = part.function.from_samples(stacked)
    for name, tensor in stored.items():
        replace(unit, name, tensor)
    return unit


def tensors_of(unit: nn.Module) -> dict[str, Tensor]:
    return dict(unit.named_parameters()) | dict(unit.named_buffers())


def replace(unit: nn.Module, name: str, tensor: Tensor) -> None:
    """Put `tensor` where `name` is, and wherever the same tensor is used again, as a new object."""
    old = tensors_of(unit)[name]
    is_parameter = isinstance(old, nn.Parameter)
    new = nn.Parameter(tensor, requires_grad=old.requires_grad) if is_parameter else tensor
    vars(new).update(vars(old))
    for module in unit.modules():
        for table in (module._parameters, module._buffers):
            for key, value in table.items():
                if value is old:
                    table[key] = new  # pyright: ignore[reportArgumentType]


# Taking a unit's modules over as a block's own, and what is known of their tensors from then on


def private(unit: nn.Module) -> nn.Module:
    """The same modules as new objects with the same tensors; hooks and buffers are its own from now on."""
    image = Image(unit)
    modules = image.made()
    clones = {id(buffer): buffer.detach().clone() for buffer in unit.buffers()}
    for part, made in zip(image.parts, modules, strict=True):
        own = vars(made)
        own["_parameters"] = dict(part.module._parameters)
        own["_buffers"] = {key: clones.get(id(buffer)) for key, buffer in part.module._buffers.items()}
        own.update({key: value.copy() for key, value in own.items() if key.endswith("_hooks")})
    return modules[0]


def check_own_tensors(unit: nn.Module) -> None:
    """Refuse a unit that keeps a tensor of its own in an attribute too, where no other tensor can take its place."""
    names = {id(t): name for name, t in [*unit.named_parameters(), *unit.named_buffers()]}
    modules = {id(module) for module in unit.modules()}
    for path, module in unit.named_modules():
        for key, value in vars(module).items():
            if key not in TABLES and leads_to(value, names, modules):
                raise UnitError(
                    f"unit {type(unit).__name__} keeps a parameter or buffer of its own in the attribute "
                    f"{f'{path}.{key}'.lstrip('.')!r} too, where it cannot become a function of depth; read it from "
                    "the module that owns it"
                )


def aliases_of(unit: nn.Module) -> dict[str, list[str]]:
    """For every tensor of the unit, all names under which it is used; the first is its own."""
    listed = [*unit.named_parameters(remove_duplicate=False), *unit.named_buffers(remove_duplicate=False)]
    own = {id(tensor): name for name, tensor in reversed(listed)}
    names: dict[str, list[str]] = {}
    for name, tensor in listed:
        names.setdefault(own[id(tensor)], []).append(name)
    return names
