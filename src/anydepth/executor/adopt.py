"""Taking a unit's modules over as a block's own, and what is known of their tensors from then on."""

from torch import nn

from anydepth.errors import UnitError
from anydepth.executor.executor import TABLES, Image
from anydepth.executor.follow import leads_to


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
