"""What was tried: a line for every chunk of tries, so that a stopped soak goes on; and the table made of them."""

import json
import os
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Part:
    """One row of the table: so many tries, made in chunks. A chunk that raises counts as one failure."""

    name: str
    fault: str
    """Of the fault matrix."""
    tries: int
    chunk: int
    run: Callable[[int, int, Path], int | None]
    """run(number of the chunk, tries in it, folder to work in); how many inputs that were, where tries are seconds."""
    unit: str = "tries"

    def chunks(self, share: float) -> Iterator[tuple[int, int]]:
        """Number and size of every chunk, for a share of the tries."""
        left, number = max(1, round(self.tries * share)), 0
        while left > 0:
            yield number, min(self.chunk, left)
            left, number = left - self.chunk, number + 1


class Ledger:
    """Lines of JSON, added to and synced after every chunk; the last line about a chunk counts."""

    def __init__(self, path: Path):
        self.path, self.lines = path, {}
        for line in path.read_text().splitlines() if path.exists() else ():
            self._take(json.loads(line))

    def _take(self, line):
        self.lines[line["part"], line["number"]] = line

    def is_done(self, part: Part, number: int, tries: int, again: bool) -> bool:
        line = self.lines.get((part.name, number))
        return line is not None and line["tries"] >= tries and not (again and line["failure"])

    def add(self, line) -> None:
        with open(self.path, "a") as file:
            file.write(json.dumps(line) + "\n")
            file.flush()
            os.fsync(file.fileno())
        self._take(line)

    def of(self, part: Part):
        return [line for (name, _), line in sorted(self.lines.items()) if name == part.name]


def attempt(part: Part, number: int, tries: int, work: Path):
    """One chunk, whatever comes of it, as a line of the ledger."""
    began, failure, inputs = time.monotonic(), "", None
    try:
        inputs = part.run(number, tries, work)
    except Exception as error:
        where = traceback.extract_tb(error.__traceback__)[-1]
        failure = f"{type(error).__name__} at {Path(where.filename).name}:{where.lineno}: {error}"[:400]
    seconds = round(time.monotonic() - began, 2)
    told = {"part": part.name, "number": number, "tries": tries, "failure": failure, "seconds": seconds}
    return told if inputs is None else told | {"inputs": inputs}


def table(parts: list[Part], ledger: Ledger) -> str:
    """Markdown: what, how often, failures, time."""
    rows = ["| fault | what | tries | failures | time |", "| --- | --- | ---: | ---: | ---: |"]
    for part in parts:
        lines = ledger.of(part)
        tries, failures = sum(line["tries"] for line in lines), sum(bool(line["failure"]) for line in lines)
        minutes = sum(line["seconds"] for line in lines) / 60
        asked = f"{tries:,}" if tries >= part.tries else f"{tries:,} of {part.tries:,}"
        inputs = sum(line.get("inputs", 0) for line in lines)
        asked = f"{asked} {part.unit}" + (f", {inputs:,} inputs" if inputs else "")
        rows.append(f"| {part.fault} | {part.name} | {asked} | {failures} | {minutes:.1f} min |")
    return "\n".join(rows)


def put_table(page: Path, text: str) -> None:
    """Replace what stands between the two marks of a page."""
    begin, end = "<!-- soak: begin -->", "<!-- soak: end -->"
    content = page.read_text()
    head, rest = content.split(begin)
    tail = rest.split(end)[1]
    page.write_text(f"{head}{begin}\n\n{text}\n\n{end}{tail}")
