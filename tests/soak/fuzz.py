"""Coverage-guided fuzzing: inputs that reach new lines of ours are kept and changed further."""

import json
import random
import sys
import time
from collections.abc import Callable
from pathlib import Path

import anydepth

SOURCE = str(Path(anydepth.__file__).parent)
NUMBERS = (b"\x00", b"\xff", b"\x7f\xff\xff\xff", b"\x80\x00\x00\x00", b"-1", b"1e999", b"NaN", b"{}", b"[]", b'""')


class Coverage:
    """The lines of the package that a call runs through, as pairs of lines, so that loops and branches count."""

    def __init__(self):
        self.seen: set[tuple[str, int, int]] = set()
        self.found: set[tuple[str, int, int]] = set()

    def __call__(self, function: Callable[[], None]) -> bool:
        """Run it; whether it went somewhere new."""
        self.found = set()
        sys.settrace(self._enter)
        try:
            function()
        finally:
            sys.settrace(None)
            new = self.found - self.seen
            self.seen |= new
        return bool(new)

    def _enter(self, frame, event, _argument):
        if not frame.f_code.co_filename.startswith(SOURCE):
            return None
        name, last = frame.f_code.co_filename, frame.f_lineno

        def line(frame, event, _argument):
            nonlocal last
            if event == "line":
                self.found.add((name, last, frame.f_lineno))
                last = frame.f_lineno
            return line

        return line


def changed(chance: random.Random, content: bytes, others: list[bytes]) -> bytes:
    """One to four small changes: bits, bytes, pieces removed, repeated, put in from other inputs, known bad numbers."""
    found = bytearray(content)
    for _ in range(chance.randint(1, 4)):
        place = chance.randrange(len(found) + 1)
        end = min(len(found), place + chance.choice((1, 2, 4, 8, 64)))
        kind = chance.randrange(7)
        if kind == 0 and place < len(found):
            found[place] ^= 1 << chance.randrange(8)
        elif kind == 1 and place < len(found):
            found[place] = chance.randrange(256)
        elif kind == 2:
            del found[place:end]
        elif kind == 3:
            found[place:place] = found[place:end] * chance.randint(1, 3)
        elif kind == 4:
            found[place:end] = chance.choice(NUMBERS)
        elif kind == 5:
            found[place:place] = chance.randbytes(chance.randint(1, 8))
        else:
            other = chance.choice(others)
            begin = chance.randrange(len(other) + 1)
            found[place:end] = other[begin : begin + chance.randint(1, 64)]
    return bytes(found[: 2**16])


VALUES = (None, True, 0, -1, 1, 2**31, 2**63, 10**400, 1e308, 0.5, "", "a", "1/3", "../x", "\x1b[2J", [], {}, [[]])


def changed_json(chance: random.Random, content: bytes) -> bytes | None:
    """JSON in which one to three values, at any depth, are others, are gone, or have moved; None: it is no JSON."""
    try:
        values = json.loads(content)
    except (ValueError, RecursionError):
        return None
    for _ in range(chance.randint(1, 3)):
        inside = values
        while isinstance(inside, (dict, list)) and inside:
            key = chance.choice(list(inside) if isinstance(inside, dict) else range(len(inside)))
            if isinstance(inside[key], (dict, list)) and inside[key] and chance.random() < 0.8:
                inside = inside[key]
                continue
            if chance.random() < 0.2:
                del inside[key]
            else:
                inside[key] = chance.choice((*VALUES, inside[key], list(inside)[-1]))
            break
    return json.dumps(values).encode()


def fuzz(
    seed: int,
    seeds: list[bytes],
    reader: Callable[[bytes], None],
    declared: tuple[type[Exception], ...],
    seconds: float,
) -> int:
    """Feed a reader with changed inputs for some seconds of this process's own time, whatever else the machine does;
    anything but a declared error ends it. How many were tried."""
    chance, coverage, corpus, count = random.Random(seed), Coverage(), list(seeds), 0
    for content in seeds:
        coverage(lambda content=content: reader(content))  # a whole file is read without complaint
    deadline = time.process_time() + seconds
    while time.process_time() < deadline:
        content = chance.choice(corpus)
        structured = changed_json(chance, content) if chance.random() < 0.6 else None
        content = changed(chance, content, corpus) if structured is None else structured
        count += 1

        def once(content=content):
            try:
                reader(content)
            except declared:
                pass
            except Exception as error:
                raise AssertionError(f"{type(error).__name__}: {error} for {content[:200]!r}") from error

        if coverage(once):
            corpus.append(content)
    return count
