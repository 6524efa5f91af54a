"""The `anydepth` command."""

import sys
import traceback
import warnings
from importlib import import_module
from shlex import join
from types import ModuleType
from typing import Annotated

import typer

from anydepth import __version__
from anydepth.errors import AnydepthError, ConfigError

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
        modules, words = _without_imports([word for word in given if word != "--debug"])
        _join(modules)
        code = app(words, standalone_mode=False, prog_name="anydepth")
    except AnydepthError as error:
        code = _fail(str(error), error.exit_code, given)
    except BadUsage as error:
        code = _fail(f"{error.format_message()}, in: anydepth {join(given)}; see anydepth --help", 2, given)  # pyright: ignore[reportAttributeAccessIssue]
    except (KeyboardInterrupt, typer.Abort):
        code = _fail("stopped", 130, given)
    except Exception as error:
        code = _fail(f"our own mistake, please report it: {type(error).__name__}: {error}", 70, given)
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


def _join(modules: list[str]) -> None:
    """Load modules; one that has a function `register` adds its commands by it."""
    if not modules:
        return
    from anydepth.extend import load_plugins

    for module in load_plugins(modules):
        register = getattr(module, "register", None)
        if register is not None and module not in _joined:
            register(app)
            _joined.append(module)


_joined: list[ModuleType] = []


def _warn(message: Warning | str, category: type[Warning], *_: object, **__: object) -> None:
    """A warning in one line; where in the code it came up is of no use here."""
    typer.echo(f"anydepth: warning: {' '.join(str(message).split())}", err=True)


def _fail(message: str, code: int, given: list[str]) -> int:
    if "--debug" in given:
        traceback.print_exc()
    typer.echo(f"anydepth: {' '.join(message.split())}", err=True)
    return code
