"""Which names are public, which of them lack a docstring or a place in the reference, and the commands' help."""

import inspect
import re
from collections.abc import Iterator
from importlib import import_module
from types import ModuleType
from typing import Any

MODULES = (
    "anydepth",
    "anydepth.units",
    "anydepth.models",
    "anydepth.extend",
    "anydepth.torchdiffeq",
    "anydepth.integrations.accelerate",
    "anydepth.integrations.lightning",
    "anydepth.integrations.transformers",
)
"""Modules that users import names from; those whose package is not installed are read, not imported."""

CLASSES = ("Change", "ContinuousBlock", "EMA", "Grid", "Stitch", "Sweep", "TimeKernel", "Verdict")
"""Classes of anydepth of which every public method is documented too."""


def faults(reference: str) -> list[str]:
    """What keeps the reference from being complete."""
    listed = set(re.findall(r"^::: ([\w.]+)", reference, re.MULTILINE))
    found = []
    for place, name, value in _names():
        if not getattr(value, "__doc__", None) and name != "Part":  # Part is a Literal, which has none
            found.append(f"{place}.{name} has no docstring")
        if not {f"{place}.{name}", _home(value, name)} & listed and f"`{name}`" not in reference:
            found.append(f"{place}.{name} is in none of the pages docs/api/*.md")
    return found + [f"anydepth.{name} has no docstring" for name in _undocumented_methods()]


def _names() -> Iterator[tuple[str, str, Any]]:
    for place in MODULES:
        try:
            module = _module(place)
        except ImportError:
            continue
        for name in getattr(module, "__all__", None) or _defined(module):
            value = getattr(module, name)
            if not isinstance(value, ModuleType):
                yield place, name, value


def _module(place: str) -> ModuleType:
    package, _, name = place.rpartition(".")
    is_alias = name in ("units", "models")
    return getattr(import_module(package), name) if is_alias else import_module(place)


def _defined(module: ModuleType) -> list[str]:
    public = [name for name in vars(module) if not name.startswith("_")]
    return [name for name in public if getattr(vars(module)[name], "__module__", None) == module.__name__]


def _home(value: Any, name: str) -> str:
    return f"{getattr(value, '__module__', '')}.{name}"


def _undocumented_methods() -> Iterator[str]:
    import anydepth

    for name in CLASSES:
        for key, member in vars(getattr(anydepth, name)).items():
            inner = member.__func__ if isinstance(member, classmethod | staticmethod) else member
            if (
                not key.startswith("_")
                and (inspect.isroutine(inner) or isinstance(inner, property))
                and not inner.__doc__
            ):
                yield f"{name}.{key}"


def commands() -> str:
    """The help of every command, as a page."""
    from typer.main import get_command

    from anydepth.cli.main import app

    parts = ["# Command line", "", "The help of every command, as `anydepth COMMAND --help` prints it.", ""]
    root: Any = get_command(app)
    for name in sorted(root.commands):
        parts += _command(root.context_class(root, info_name="anydepth"), name, root.commands[name])
    return "\n".join(parts)


def _command(above: Any, name: str, command: Any) -> list[str]:
    context = command.context_class(command, info_name=name, parent=above)
    if hasattr(command, "commands"):
        return [line for sub in sorted(command.commands) for line in _command(context, sub, command.commands[sub])]
    help_text = inspect.cleandoc((command.help or "").replace("\b", "")).replace("\n\n\n", "\n\n")
    words, _, example = help_text.partition("Example")
    lines = [f"## {context.command_path}", "", words.strip(), ""]
    if example:
        lines += ["```bash", *[line.strip() for line in example.split("\n")[1:] if line.strip()], "```", ""]
    rows = [record for parameter in command.params if (record := parameter.get_help_record(context))]
    arguments = [_argument(parameter) for parameter in command.params if parameter.param_type_name == "argument"]
    table = [*arguments, *(row for row in rows if row not in arguments)]
    lines += ["| argument | |", "| --- | --- |", *[f"| `{_cell(a)}` | {_cell(b)} |" for a, b in table], ""]
    return lines


def _argument(parameter: Any) -> tuple[str, str]:
    return parameter.metavar or parameter.name.upper(), parameter.help or ""


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ").replace("<", "&lt;") if text else ""
