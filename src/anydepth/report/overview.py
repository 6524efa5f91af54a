"""Several runs side by side, as one HTML file."""

import os
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote

from anydepth import artifact
from anydepth.errors import AnydepthError, ConfigError, ModelFileError, printable
from anydepth.json_values import JsonObject
from anydepth.measure.evaluation import METRIC
from anydepth.report import figures, html
from anydepth.report.curves import Points, last_value, logged, read_curves
from anydepth.report.html import NONE, Markup, join, picture, section, table, tag
from anydepth.report.page import duration
from anydepth.report.yardstick import Yardstick
from anydepth.runs.folder import RECORD, REPORT, Run, open_run
from anydepth.surgery.summary import summary

NUMBERS = ("parameters", "NFE", "validation", "test", "epochs", "time")
COLUMNS = ("weights", "solver", *NUMBERS, "parent")


@dataclass(frozen=True)
class Entry:
    """One run, as far as it can be read; `problem` says what could not."""

    name: str
    folder: Path
    run: Run | None = None
    metrics: list[JsonObject] = field(default_factory=list)
    hash: str | None = None
    shape: JsonObject = field(default_factory=dict)
    """weights, solver, parameters, nfe."""
    problem: str = ""

    @property
    def yardstick(self) -> Yardstick:
        return Yardstick(METRIC[self.run.facts.task] if self.run else "")


def write_overview(folder: Path, path: Path | None = None) -> Path:
    """Compare all runs under a folder on one page, by default its report.html; where that was written."""
    if (folder / RECORD).exists():
        raise ConfigError(f"{folder} is a run itself, not a folder of runs; report it alone, or name the folder above")
    records = (record.parent for record in folder.rglob(RECORD))
    found = sorted(place for place in records if not any(map(artifact.is_staging, (place, *place.parents))))
    if not found:
        raise ModelFileError(f"no run in {folder} or below; name a folder with runs that anydepth train made")
    target = folder / REPORT if path is None else path
    page = overview_page(folder.resolve().name, [_entry(folder, run) for run in found], target.parent)
    artifact.write_bytes(target, page.encode(errors="replace"))
    return target


def _entry(root: Path, folder: Path) -> Entry:
    name = printable(folder.relative_to(root).as_posix())
    try:
        run = open_run(folder)
        metrics = logged(run)
        code = run.model_hash() if run.is_finished else None
        return Entry(name, folder, run, metrics, code, _shape(run, metrics))
    except AnydepthError as error:
        return Entry(name, folder, problem=str(error))


def _shape(run: Run, metrics: list[JsonObject]) -> JsonObject:
    """What the model is: as logged at the end of its training, or as it is on disk."""
    logged = next((line for line in reversed(metrics) if line.get("kind") == "epoch"), None)
    if logged is not None or not run.is_finished:
        return {key: (logged or {}).get(key) for key in ("weights", "solver", "parameters", "nfe")}
    found = summary(run.model())
    forms = [row.form for row in found.rows]
    return {
        "weights": ", ".join(dict.fromkeys(form.weights for form in forms)),
        "solver": ", ".join(dict.fromkeys(form.solver for form in forms)),
        "parameters": found.parameters,
        "nfe": found.nfe or None,
    }


def overview_page(name: str, entries: list[Entry], place: Path) -> str:
    """The text of the page, which is to stand in the folder `place`."""
    count = "1 run" if len(entries) == 1 else f"{len(entries)} runs"
    head = tag("header", tag("h1", name), tag("p", count, class_="soft"))
    return html.page(f"{name}: anydepth overview", head, _comparison(entries, place), *_curves(entries))


def _comparison(entries: list[Entry], place: Path) -> Markup:
    names = {entry.hash: entry.name for entry in entries if entry.hash}
    head = ["run", *(tag("th", x, scope="col", class_="right") if x in NUMBERS else x for x in COLUMNS)]
    rows = [[tag("th", _link(entry, place), scope="row"), *_cells(entry, names)] for entry in entries]
    problems = (tag("li", f"{entry.name}: {entry.problem}") for entry in entries if entry.problem)
    told = join(problems)
    broken = join([tag("h3", "Not read"), tag("ul", told)]) if told else None
    return section("Runs", "runs", table(head, rows, "stacked"), broken)


def _link(entry: Entry, place: Path) -> str:
    """The run's name, leading to its report if there is one."""
    report = entry.folder / REPORT
    if not report.exists():
        return entry.name
    return tag("a", entry.name, href=quote(os.fsencode(Path(os.path.relpath(report, place)).as_posix())))


def _cells(entry: Entry, names: dict[str, str]) -> list[str]:
    if entry.run is None:
        return [NONE] * len(COLUMNS)
    metrics, yardstick, shape = entry.metrics, entry.yardstick, entry.shape
    seconds, epochs, parent = last_value(metrics, "seconds"), _epochs(metrics), entry.run.record.parent
    scores = (last_value(metrics, f"{part}_{yardstick.metric}") for part in ("validation", "test"))
    numbers = [
        *(NONE if shape[key] is None else f"{shape[key]:,}" for key in ("parameters", "nfe")),
        *(NONE if score is None else f"{yardstick.text(score)}{_unit(yardstick)}" for score in scores),
        NONE if epochs is None else str(epochs),
        NONE if seconds is None else duration(seconds),
    ]
    kin = NONE if parent is None else names.get(parent, parent[:12])
    shown = (tag("td", number, class_="right") for number in numbers)
    return [shape["weights"] or NONE, shape["solver"] or NONE, *shown, kin]


def _epochs(metrics: list[JsonObject]) -> int | None:
    return last_value([line for line in metrics if line.get("kind") == "epoch"], "epoch")


def _unit(yardstick: Yardstick) -> str:
    return "" if yardstick.is_percent else f" {yardstick.metric}"


def _curves(entries: list[Entry]) -> list[Markup]:
    """One figure for every metric: of validation, or of training where some run has no validation."""
    drawn = []
    for metric in dict.fromkeys(entry.yardstick.metric for entry in entries if entry.run):
        read = {e.name: read_curves(e.metrics, metric) for e in entries if e.run and e.yardstick.metric == metric}
        curves = {name: found for name, found in read.items() if found is not None}
        part = "validation" if all(found.validation_metric for found in curves.values()) else "train"
        series: dict[str, Points] = {n: getattr(found, f"{part}_metric") for n, found in curves.items()}
        series = {name: points for name, points in series.items() if points}
        if series:
            shown = picture(figures.overview_figure(series, Yardstick(metric), part), f"{part} {metric} of every run")
            told = None if part == "validation" else tag("p", "Of training: not every run has a validation part.")
            drawn.append(section(f"{part.capitalize()} {metric}", f"curves-{metric}", told, shown))
    return drawn
