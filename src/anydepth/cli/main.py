"""The `anydepth` command."""

import os
import sys
import traceback
import warnings
from contextlib import suppress
from functools import cache
from importlib import import_module
from shlex import join
from types import ModuleType
from typing import Annotated

import typer

from anydepth import __version__, plugins
from anydepth.errors import AnydepthError, ConfigError, PluginError, printable

app = typer.Typer(
    name="anydepth",
    help="Networks whose depth is continuous: train once, run at any depth.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


BadUsage: type[Exception] = typer.BadParameter.__mro__[2]  # pyright: ignore[reportAssignmentType]
"""Base of the parser's complaints, whichever click typer carries."""


def _show_version(asked: bool) -> None:
    if asked:
        typer.echo(f"anydepth {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks.")] = False,
    modules: Annotated[
        list[str] | None,
        typer.Option("--import", metavar="MODULE", help="Load a module or a .py file that adds parts or commands."),
    ] = None,
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Options of every command, before or after its name; --debug and --import are read by `main`."""


OWN_COMMANDS = (
    "demo",
    "list",
    "data",
    "train",
    "evaluate",
    "compress",
    "smooth",
    "sweep",
    "check",
    "gradients",
    "export",
    "predict",
    "report",
    "serve",
)
for _command in OWN_COMMANDS:
    import_module(f"anydepth.cli.{_command}_command").register(app)


PIPE_CLOSED = 141
"""Exit code when the reader of the output has closed it, as of a program that SIGPIPE ends."""


def main(arguments: list[str] | None = None) -> None:
    """Run a command; every error a user can cause is one line and its own exit code."""
    given = (sys.argv[1:] if arguments is None else arguments) or ["--help"]
    with warnings.catch_warnings():
        warnings.showwarning = _warn
        sys.exit(_run(given))


def _run(given: list[str]) -> int:
    try:
        _check_not_empty(given)
        modules, words = _without_imports([word for word in given if word != "--debug"])
        _join_modules(modules)
        _join_plugins(words)
        code = app(words, standalone_mode=False, prog_name="anydepth")
        if sys.stdout is not None:
            sys.stdout.flush()
    except AnydepthError as error:
        code = _fail(str(error), error.exit_code, given)
    except BadUsage as error:
        code = _fail(f"{error.format_message()}, in: anydepth {join(given)}; see anydepth --help", 2, given)  # pyright: ignore[reportAttributeAccessIssue]
    except (KeyboardInterrupt, typer.Abort):
        code = _fail("stopped", 130, given)
    except (BrokenPipeError, SystemExit):  # the latter is how click says it
        code = PIPE_CLOSED
    except OSError as error:
        what = f" {error.filename}" if error.filename else ""
        code = _fail(f"cannot read or write{what}: {error.strerror or error}; choose another place", 6, given)
    except Exception as error:
        code = _fail(f"internal error, please report it: {type(error).__name__}: {error}", 70, given)
    _let_go()
    return code if isinstance(code, int) else 0


def _without_imports(words: list[str]) -> tuple[list[str], list[str]]:
    """The modules of --import, wherever it stands, and all other words."""
    modules: list[str] = []
    others: list[str] = []
    rest = iter(words)
    for word in rest:
        if word == "--":
            others += [word, *rest]
        elif word.startswith("--import="):
            modules.append(word.removeprefix("--import="))
        elif word == "--import":
            name = next(rest, None)
            if name is None:
                raise ConfigError("--import needs the name of a module, or the path of a .py file")
            modules.append(name)
        else:
            others.append(word)
    return modules, others or ["--help"]


def _join_modules(modules: list[str]) -> None:
    """Load modules; one that has a function `register` adds its commands by it."""
    for module in plugins.load_plugins(modules):
        if hasattr(module, "register"):
            _register(module)


def _warn(message: Warning | str, category: type[Warning], *_: object, **__: object) -> None:
    """A warning in one line; where in the code it came up is of no use here."""
    typer.echo(f"anydepth: warning: {printable(' '.join(str(message).split()))}", err=True)


def _check_not_empty(given: list[str]) -> None:
    """An empty word would mean the current folder to the parser, and is always a slip of a script."""
    for place, word in enumerate(given):
        is_empty_value = word.startswith("--") and word.endswith("=") and word.count("=") == 1
        if not word or is_empty_value:
            name = word.rstrip("=") or (given[place - 1] if place else "anydepth")
            raise ConfigError(f"an empty value after {name}, expected a name, a number or a path; give one")


def _join_plugins(given: list[str]) -> None:
    """Add the commands of installed plugins, unless the command is one of ours."""
    command = next((word for word in given if not word.startswith("-")), None)
    if command in OWN_COMMANDS:
        return
    elsewhere = plugins.where_else("command", command)
    if elsewhere:
        raise ConfigError(elsewhere)
    try:
        _register_commands()
    except PluginError as error:
        if command is not None:
            raise
        typer.echo(f"anydepth: {printable(str(error))}", err=True)


@cache
def _register_commands() -> None:
    errors: list[PluginError] = []
    for module in plugins.modules_of("command"):
        try:
            _register(module)
        except PluginError as error:
            errors.append(error)
    if errors:
        raise errors[0]


def _register(module: ModuleType) -> None:
    """Add a module's commands, once."""
    if module not in _joined:
        try:
            module.register(app)
        except Exception as error:
            what = f"{plugins.origin_of(module)}: register(app) fails: {type(error).__name__}: {error}"
            raise PluginError(f"{what}; fix or remove it; --debug shows where") from error
        _joined.append(module)


_joined: list[ModuleType] = []


def _fail(message: str, code: int, given: list[str]) -> int:
    if "--debug" in given:
        traceback.print_exc()
    with suppress(OSError):
        typer.echo(f"anydepth: {printable(' '.join(message.split()))}", err=True)
    return code


def _let_go() -> None:
    """Keep the interpreter from trying once more to write to an output that is closed or full."""
    for stream in filter(None, (sys.stdout, sys.stderr)):
        try:
            stream.flush()
        except (OSError, ValueError):
            with suppress(OSError, ValueError):
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
