"""Sweeps on disk: one sealed file that is whole after every form, so that a killed sweep resumes."""

from collections.abc import Mapping
from dataclasses import asdict, fields
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from anydepth import artifact
from anydepth.deploy.sweeps.candidates import Axes
from anydepth.deploy.sweeps.result import DepthRow, FormRow, Sweep
from anydepth.errors import ConfigError, ModelFileError
from anydepth.json_values import JsonObject
from anydepth.measure.paired import CLOSE
from anydepth.runs.folder import Run
from anydepth.surgery.forms import MIXED

FORMAT, VERSION = "anydepth-sweep", 2
_AGAIN = "sweep again with --fresh"
_EARLIER = {"each its own": MIXED}
"""Names of bases in files that were written before they had their present ones."""
_MOST = {"examples": 10**12, "batch": 10**9, "threads": 10**4, "rounds": 10**9}
"""Of the settings that are numbers."""
_SWEEP, _PARTS = TypeAdapter(Sweep), tuple(part.name for part in fields(Sweep))


def file_name(split: str | None) -> str:
    """Where the sweep on a part of the data is kept: validation data chooses, so its sweep has the plain name."""
    return {"validation": "sweep.json", None: "sweep-no-data.json"}.get(split, f"sweep-{split}.json")


def write_sweep(path: Path, sweep: Sweep, model: str, axes: Axes, is_complete: bool) -> None:
    """`model` is the hash of what was swept."""
    header = {"format": FORMAT, "version": VERSION, "model": model, "axes": asdict(axes), "is_complete": is_complete}
    artifact.write_json(path, artifact.sealed(header | (sweep.describe() if is_complete else sweep.describe_rows())))


def read_sweep(path: Path, model: str | None = None) -> tuple[Sweep, bool]:
    """A sweep, and whether it is complete; one that is damaged, or of another model if a hash is given, is refused."""
    return _sweep(path, _described(path, model))


def known_rows(
    path: Path, model: str, settings: Mapping[str, object], fresh: bool
) -> tuple[dict[str, FormRow | DepthRow], str]:
    """Rows by name that were measured before in the same way, and why others that are there are not taken."""
    if fresh or not path.exists():
        return {}, ""
    try:
        values = _described(path, None)
        sweep, _ = _sweep(path, values)
    except ModelFileError as error:
        return {}, f"measured again, for {error}"
    if values.get("model") != model:
        raise ConfigError(f"{path} is the sweep of another model; name another folder with --out, or {_AGAIN}")
    for name, value in settings.items():
        if sweep.settings.get(name) != value:
            return {}, f"measured again: {name} was {sweep.settings.get(name)}, now it is {value}"
    return {row.name: row for row in (*sweep.rows, *sweep.anytime)}, ""


def sweep_of(run: Run, split: str | None = "validation", folder: Path | None = None) -> Sweep | None:
    """The finished sweep that is kept for a run's model, if there is one."""
    path = (folder or run.folder) / file_name(split)
    if not path.exists():
        return None
    sweep, is_complete = read_sweep(path, run.model_hash())
    return sweep if is_complete else None


def _described(path: Path, model: str | None) -> JsonObject:
    values = artifact.read_json(path)
    if values.get("format") != FORMAT or values.get("version") != VERSION:
        raise ModelFileError(f"{path} is not a sweep file of version {VERSION}; {_AGAIN}")
    artifact.check_seal(values, path)
    if model is not None and values.get("model") != model:
        raise ModelFileError(f"{path} is the sweep of another model; {_AGAIN}")
    return values


def _sweep(path: Path, values: JsonObject) -> tuple[Sweep, bool]:
    """From JSON values, all of which are checked."""
    try:
        rows = [row | {"basis": _EARLIER.get(row["basis"], row["basis"])} for row in values["rows"]]
        known = {"anytime": []} | values
        sweep = _SWEEP.validate_python({name: known[name] for name in _PARTS} | {"rows": rows})
        counts = {name: sweep.settings[name] for name in _MOST}
    except (KeyError, TypeError, ValidationError) as error:
        cause = error.errors()[0]["msg"] if isinstance(error, ValidationError) else f"{error} is missing"
        raise ModelFileError(f"{path} is damaged: {cause}; {_AGAIN}") from None
    sources = sum(row.is_source for row in sweep.rows)
    if sweep.metric not in CLOSE or sources != 1:
        raise ModelFileError(f"{path} is damaged: it has {sources} sources, metric {sweep.metric!r:.40}; {_AGAIN}")
    for name, count in counts.items():
        least = 0 if name == "examples" else 1
        if not isinstance(count, int) or not least <= count <= _MOST[name]:
            raise ModelFileError(f"{path} is damaged: {name} is {count!r:.40}; {_AGAIN}")
    return sweep, bool(values.get("is_complete"))
