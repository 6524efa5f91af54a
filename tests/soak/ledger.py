"""What was tried: a line for every chunk of tries, so that a stopped soak goes on; and the table made of them."""

import hashlib
import json
import os
import resource
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from multiprocessing import forkserver
from pathlib import Path

import anydepth


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


@cache
def code() -> str:
    """What the library is, in short: a hash of its source."""
    root = Path(anydepth.__file__).parent
    files = sorted(root.rglob("*.py"))
    return hashlib.sha256(b"".join(str(p.relative_to(root)).encode() + p.read_bytes() for p in files)).hexdigest()[:12]


def processor() -> float:
    """Seconds of processor time so far: of this process, those it waited for, and those that its server forked."""
    taken = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    server = forkserver._forkserver._forkserver_pid
    ticks = Path(f"/proc/{server}/stat").read_text().rsplit(")", 1)[1].split()[11:15] if server else ()
    return sum(one.ru_utime + one.ru_stime for one in taken) + sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK")


def attempt(part: Part, number: int, tries: int, work: Path):
    """One chunk, whatever comes of it, as a line of the ledger."""
    began, failure, inputs = processor(), "", None
    try:
        inputs = part.run(number, tries, work)
    except Exception as error:
        where = traceback.extract_tb(error.__traceback__)[-1]
        failure = f"{type(error).__name__} at {Path(where.filename).name}:{where.lineno}: {error}"[:400]
    told = {"part": part.name, "number": number, "tries": tries, "failure": failure, "code": code()}
    told |= {"ended": time.strftime("%Y-%m-%d %H:%M", time.gmtime()), "processor": round(processor() - began, 2)}
    return told if inputs is None else told | {"inputs": inputs}


def table(parts: list[Part], ledger: Ledger) -> str:
    """Markdown: what, how often, failures, processor time."""
    rows = ["| fault | what | tries | failures | processor time |", "| --- | --- | ---: | ---: | ---: |"]
    for part in parts:
        lines = ledger.of(part)
        tries, failures = sum(line["tries"] for line in lines), sum(bool(line["failure"]) for line in lines)
        minutes = sum(line["processor"] for line in lines) / 60
        asked = f"{tries:,}" if tries >= part.tries else f"{tries:,} of {part.tries:,}"
        inputs = sum(line.get("inputs", 0) for line in lines)
        asked = f"{asked} {part.unit}" + (f", {inputs:,} inputs" if inputs else "")
        told = f"{failures} | {minutes:.1f} min" if lines else "not tried yet | "
        rows.append(f"| {part.fault} | {part.name} | {asked} | {told} |")
    return "\n".join(rows)


def put_table(page: Path, text: str) -> None:
    """Replace what stands between the two marks of a page."""
    begin, end = "<!-- soak: begin -->", "<!-- soak: end -->"
    content = page.read_text()
    head, rest = content.split(begin)
    tail = rest.split(end)[1]
    page.write_text(f"{head}{begin}\n\n{text}\n\n{end}{tail}")
