"""The `anydepth` command."""

import sys
import traceback
import warnings
from functools import cache
from importlib import import_module
from shlex import join
from typing import Annotated

import typer

from anydepth import __version__, plugins
from anydepth.errors import AnydepthError, ConfigError, PluginError

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
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Options of every command; --debug is read by `main`."""


OWN_COMMANDS = (
    "demo",
    "list",
    "data",
    "train",
    "evaluate",
    "compress",
    "sweep",
    "check",
    "gradients",
    "export",
    "predict",
    "report",
)
for _command in OWN_COMMANDS:
    import_module(f"anydepth.cli.{_command}_command").register(app)


def main(arguments: list[str] | None = None) -> None:
    """Run a command; every error a user can cause is one line and its own exit code."""
    given = (sys.argv[1:] if arguments is None else arguments) or ["--help"]
    with warnings.catch_warnings():
        warnings.showwarning = _warn
        sys.exit(_run(given))


def _run(given: list[str]) -> int:
    try:
        _join_plugins(given)
        code = app([word for word in given if word != "--debug"], standalone_mode=False, prog_name="anydepth")
    except AnydepthError as error:
        code = _fail(str(error), error.exit_code, given)
    except BadUsage as error:
        code = _fail(f"{error.format_message()}, in: anydepth {join(given)}; see anydepth --help", 2, given)  # pyright: ignore[reportAttributeAccessIssue]
    except (KeyboardInterrupt, typer.Abort):
        code = _fail("stopped", 130, given)
    except Exception as error:
        code = _fail(f"our own mistake, please report it: {type(error).__name__}: {error}", 70, given)
    return code if isinstance(code, int) else 0


def _warn(message: Warning | str, category: type[Warning], *_: object, **__: object) -> None:
    """A warning in one line; where in the code it came up is of no use here."""
    typer.echo(f"anydepth: warning: {' '.join(str(message).split())}", err=True)


def _join_plugins(given: list[str]) -> None:
    """Add the commands of plugins, unless the command is one of ours."""
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
        typer.echo(f"anydepth: {error}", err=True)


@cache
def _register_commands() -> None:
    for module in plugins.modules_of("command"):
        module.register(app)


def _fail(message: str, code: int, given: list[str]) -> int:
    if "--debug" in given:
        traceback.print_exc()
    typer.echo(f"anydepth: {' '.join(message.split())}", err=True)
    return code
