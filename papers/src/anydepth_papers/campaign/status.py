"""How far a net of the campaign is, read from its folder."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from anydepth import artifact
from anydepth.errors import FolderInUseError
from anydepth.runs.folder import RECORD, open_run
from anydepth.runs.lock import refuse_if_locked
from anydepth_papers.campaign.declared import GROWS_AT, STEPS, Net

COMMITS, FAILURE = "commits.json", "failure.json"


@dataclass(frozen=True)
class State:
    """One row of the status table."""

    net: Net
    word: str
    """done, running, stopped, failed or waiting."""
    share: float = 0.0
    """Of the work."""
    seconds: float = 0.0
    """Of training so far."""
    figures: dict[str, Any] | None = None
    """The last line of metrics with scores."""

    @property
    def left(self) -> float | None:
        """Seconds that are left, by what was needed so far; None where that cannot be told yet."""
        return self.seconds * (1 - self.share) / self.share if self.share else None


def state_of(net: Net, nets: Path) -> State:
    """What the folder of a net tells."""
    folder = nets / net.name
    if (folder / FAILURE).exists():
        return State(net, "failed", figures=artifact.read_json(folder / FAILURE))
    if not (folder / RECORD).exists():
        return State(net, "waiting")
    run = open_run(folder)
    epochs = [line for line in run.metrics() if line["kind"] in ("epoch", "test")]
    seconds = max((line["seconds"] for line in epochs if "seconds" in line), default=0.0)
    if run.is_over:
        return State(net, "done", 1.0, seconds, epochs[-1])
    done = epochs[-1]["epoch"] if epochs else 0
    word = "running" if _is_in_use(folder) else "stopped"
    return State(net, word, share_done(net, done), seconds, epochs[-1] if epochs else None)


def share_done(net: Net, epochs: int) -> float:
    """Of the work of a net after so many epochs; an epoch of N steps costs about 1 + N."""
    total = net.config().training.epochs or 1
    costs = [1 + steps_in(net, epoch) for epoch in range(total)]
    return sum(costs[:epochs]) / sum(costs)


def steps_in(net: Net, epoch: int) -> int:
    """Steps of every block in an epoch, counted from 0."""
    return STEPS // 2 ** sum(epoch < at for at in GROWS_AT) if net.grows else STEPS


def _is_in_use(folder: Path) -> bool:
    try:
        refuse_if_locked(folder)
    except FolderInUseError:
        return True
    return False
