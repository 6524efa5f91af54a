"""`anydepth campaign`."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from anydepth.cli.heap import keep_freed_memory
from anydepth.cli.output import Data, Json, console, print_json
from anydepth.cli.training_bar import training_bar
from anydepth_papers.campaign import NETS

if TYPE_CHECKING:
    from anydepth.runs.config import RunConfig
    from anydepth.runs.progress import Watch
    from anydepth_papers.campaign.status import State


def register(app: typer.Typer) -> None:
    app.command("campaign")(campaign)


def campaign(
    data: Data = None,
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder of the nets.")] = NETS,
    status: Annotated[bool, typer.Option("--status", help="Show how far the nets are, and train nothing.")] = False,
    json: Json = False,
) -> None:
    """Train the nets of the studies at real scale, one after another. Takes days; stopped at any time, it resumes.

    It runs at low priority with one thread. Nets that are done in the folder are skipped.

    \b
    Examples:
      anydepth campaign --data ~/data
      anydepth campaign --status
    """
    from anydepth_papers.campaign.campaign import campaign as run

    @contextmanager
    def watched(config: "RunConfig") -> "Iterator[Watch]":
        console.print(_table(out)) if not json else None
        with training_bar(config, quiet=json) as watch:
            yield watch

    if not status:
        keep_freed_memory()
        run(out, data, watched)
    if json:
        print_json({"nets": [_described(state) for state in _states(out)]})
    else:
        console.print(_table(out))


def _states(folder: Path) -> "list[State]":
    from anydepth_papers.campaign.declared import nets
    from anydepth_papers.campaign.status import state_of

    return [state_of(net, folder) for net in nets()]


def _described(state: "State") -> dict[str, Any]:
    told = {"net": state.net.title, "seed": state.net.seed, "state": state.word, "share": round(state.share, 4)}
    return told | {"seconds": state.seconds, "seconds_left": state.left, "figures": state.figures}


def _table(folder: Path) -> Table:
    states = _states(folder)
    words = [state.word for state in states]
    counts = ", ".join(f"{words.count(word)} {word}" for word in dict.fromkeys(words))
    table = Table(title=f"Campaign: {counts}", title_justify="left")
    for column in ("net", "seed", "state", "done", "hours", "hours left", "figures"):
        table.add_column(column, justify="left" if column in ("net", "state", "figures") else "right")
    for state in states:
        table.add_row(*_cells(state))
    return table


def _cells(state: "State") -> tuple[str, ...]:
    colour = {"done": "green", "running": "cyan", "failed": "red", "stopped": "yellow"}.get(state.word, "dim")
    left = state.left if state.word in ("running", "stopped") else None
    return (
        state.net.title,
        str(state.net.seed),
        f"[{colour}]{state.word}[/]",
        f"{100 * state.share:.0f} %" if state.share else "",
        f"{state.seconds / 3600:.1f}" if state.seconds else "",
        "" if left is None else f"{left / 3600:.1f}",
        _figures(state.figures or {}),
    )


def _figures(line: dict[str, Any]) -> str:
    if "error" in line:
        return escape(line["error"])
    parts = [part for part in ("train", "validation", "test") if f"{part}_accuracy" in line]
    return ", ".join(f"{part} {line[f'{part}_accuracy']:.2f} %" for part in parts)
