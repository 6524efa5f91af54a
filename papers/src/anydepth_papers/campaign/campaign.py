"""Training the nets of the campaign, one after another; stopped at any moment, it resumes."""

import os
from collections.abc import Callable
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from pathlib import Path

from anydepth import artifact
from anydepth.errors import NumericalError
from anydepth.runs.config import RunConfig
from anydepth.runs.progress import Watch
from anydepth.train.training import train
from anydepth_papers.campaign.declared import Net, nets
from anydepth_papers.campaign.status import COMMITS, FAILURE, state_of
from anydepth_papers.judge.commit import commit_of_code

LOWEST_PRIORITY = 19


def campaign(
    folder: Path, data: Path | None, watched: Callable[[RunConfig], AbstractContextManager[Watch]]
) -> "list[Net]":
    """Train every net that is neither done nor failed, at the lowest priority; the nets that were trained now."""
    os.nice(LOWEST_PRIORITY)
    due = [net for net in nets() if state_of(net, folder).word not in ("done", "failed")]
    for net in due:
        with watched(net.config()) as watch:
            train_net(net, folder / net.name, data, watch)
    return due


def train_net(net: Net, folder: Path, data: Path | None, watch: Watch | None = None) -> None:
    """Train or resume one net; one that diverges would do so again: that is noted, and the campaign continues."""
    artifact.make_folder(folder)
    note_commit(folder)
    try:
        train(net.config(), folder, data, watch, resume=True)
    except NumericalError as error:
        artifact.write_json(folder / FAILURE, {"error": str(error), "date": _now()})


def note_commit(folder: Path) -> None:
    """Add the code's commit to those that this net was trained with, oldest first."""
    known = artifact.read_json(folder / COMMITS)["commits"] if (folder / COMMITS).exists() else []
    here = commit_of_code()
    if not known or any(known[-1][key] != value for key, value in here.items()):
        artifact.write_json(folder / COMMITS, {"commits": [*known, here | {"since": _now()}]})


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="minutes")
