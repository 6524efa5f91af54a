"""The `anydepth` command."""

import sys
import traceback
import warnings
from importlib import import_module
from shlex import join
from typing import Annotated

import typer

from anydepth import __version__
from anydepth.errors import AnydepthError

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


for _command in (
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
    "reproduce",
    "campaign",
    "bench",
):
    import_module(f"anydepth.cli.{_command}_command").register(app)


def main(arguments: list[str] | None = None) -> None:
    """Run a command; every error a user can cause is one line and its own exit code."""
    given = (sys.argv[1:] if arguments is None else arguments) or ["--help"]
    with warnings.catch_warnings():
        warnings.showwarning = _warn
        sys.exit(_run(given))


def _run(given: list[str]) -> int:
    try:
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


def _fail(message: str, code: int, given: list[str]) -> int:
    if "--debug" in given:
        traceback.print_exc()
    typer.echo(f"anydepth: {' '.join(message.split())}", err=True)
    return code
