"""Load of `anydepth serve`: arrivals at 0.5 to 4 times what full depth serves, beside the same server at fixed depth.

    python benchmarks/load.py [--run DIR] [--seconds 30] [--p99-ms 100] [--out benchmarks/load.json]

Loopback only. The server has a core and a thread, the client the other core. Arrivals are Poisson and wait for no
answers; times run from the moment a request was due. Every answer is compared with the label and with what full depth
said of the same image. About five minutes; the run is trained and swept first if it is not there (some minutes more).
Writes JSON, and a table beside it in Markdown.
"""

import argparse
import asyncio
import json
import os
import platform
import subprocess
import sys
import time
from collections import Counter
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np

TIMES = (0.5, 1.0, 2.0, 4.0)
CORES = sorted(os.sched_getaffinity(0))
SETTINGS = [
    "data.validation=257",
    "data.crop=1",
    "model.options.channels=[128]",
    "training.epochs=10",
    "refine.at=[3,6,8,9]",
    "seed=1",
]
"""A digits net of 128 channels, RK4 with 16 steps: a pass takes many times what HTTP does."""
GIVEN_UP = 30.0
AT_ONCE, BREAK = 4, 0.02
"""Clients that ask without a break, to find what full depth can serve: enough that some always wait; and how long those
that were refused do."""


def prepared(folder: Path) -> Path:
    """The run and its sweep, made if they are not there."""
    command = [sys.executable, "-m", "anydepth"]
    one = os.environ | {"OMP_NUM_THREADS": "1"}
    if not folder.exists():
        changes = [word for setting in SETTINGS for word in ("--set", setting)]
        subprocess.run([*command, "train", "digits", *changes, "--out", str(folder)], check=True, env=one)
    if not (folder / "sweep.json").exists():
        grid = ["--sizes", "9", "--steps", "16,8,4,2,1"]
        subprocess.run([*command, "sweep", str(folder), *grid], check=True, env=one)
    return folder


@contextmanager
def server(run: Path, *options: str):
    """`anydepth serve` on the first core; its port and its process."""
    command = [sys.executable, "-m", "anydepth", "serve", str(run), "--json", "--port", "0", "--threads", "1", *options]
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        preexec_fn=lambda: os.sched_setaffinity(0, CORES[:1]),
    )
    try:
        assert process.stdout is not None
        said = ""
        while not said.rstrip().endswith("}"):
            line = process.stdout.readline()
            if not line:
                raise SystemExit("the server did not start")
            said += line
        yield int(json.loads(said)["address"].rpartition(":")[2]), process
    finally:
        process.terminate()
        process.wait(30)


class Client:
    """Requests over connections that are kept; as many as are needed."""

    def __init__(self, port: int):
        self.port, self.free = port, []

    async def ask(self, request: bytes) -> tuple[int, bytes]:
        """Status and body; a kept connection may have been closed meanwhile."""
        if self.free:
            with suppress(asyncio.IncompleteReadError, ConnectionError):
                return await self._ask(request, *self.free.pop())
        return await self._ask(request, *await asyncio.open_connection("127.0.0.1", self.port))

    async def _ask(self, request: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter):
        writer.write(request)
        head = await reader.readuntil(b"\r\n\r\n")
        length = next(int(line[15:]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
        body = await reader.readexactly(length)
        self.free.append((reader, writer))
        return int(head[9:12]), body


def request_of(body: bytes, path: str = "/predict", kind: str = "application/json") -> bytes:
    head = f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


def metrics_of(text: bytes) -> dict[str, float]:
    lines = (line.rsplit(" ", 1) for line in text.decode().splitlines() if not line.startswith("#"))
    return {name: float(value) for name, value in lines}


METRICS = b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"


def test_set(run: Path) -> tuple[list[bytes], list[str]]:
    """Requests with one test image each, and what they show."""
    from anydepth.runs.folder import open_run

    part = open_run(run).dataset(None).part("test")
    requests = [request_of(json.dumps({"inputs": [pixels.tolist()]}).encode()) for pixels in part.pixels]
    return requests, [part.labels[place] for place in part.classes]


def passes_in(metrics: dict[str, float]) -> float:
    """Seconds."""
    return sum(value for name, value in metrics.items() if name.startswith("anydepth_pass_seconds"))


async def asked_in_turn(port: int, requests: list[bytes], clients: int, count: int) -> dict:
    """So many answers for clients that ask without a break, one image after another."""
    client, places, times, said = Client(port), iter(range(count)), [], {}
    before, began = passes_in(metrics_of((await client.ask(METRICS))[1])), time.monotonic()

    async def one():
        for place in places:
            asked = time.monotonic()
            while (reply := await client.ask(requests[place % len(requests)]))[0] == 503:
                await asyncio.sleep(BREAK)
            times.append(time.monotonic() - asked)
            said[place % len(requests)] = json.loads(reply[1])["predictions"][0]["label"]

    await asyncio.gather(*(one() for _ in range(clients)))
    took = time.monotonic() - began
    passes = passes_in(metrics_of((await client.ask(METRICS))[1])) - before
    return {"rate": count / took, "mean": sum(times) / count, "passes": passes / count, "said": said}


def capacity(port: int, requests: list[bytes], labels: list[str]) -> dict:
    """Full depth: its share of the time that a request alone takes, what it serves at most, and what it answers."""
    alone = asyncio.run(asked_in_turn(port, requests, 1, len(requests)))
    most = asyncio.run(asked_in_turn(port, requests, AT_ONCE, len(requests)))
    said = [alone["said"][place] for place in range(len(requests))]
    return {
        "alone_ms": 1000 * alone["mean"],
        "share_in_pass_alone": alone["passes"] / alone["mean"],
        "requests_a_second": most["rate"],
        "share_in_passes": most["passes"] * most["rate"],
        "accuracy": 100 * float(np.mean([found == label for found, label in zip(said, labels, strict=True)])),
        "labels": said,
    }


async def flood(port: int, requests: list[bytes], labels: list[tuple], rate: float, seconds: float, seed: int):
    """Poisson arrivals at a rate; what became of them. `labels`: of every image the true one and full depth's."""
    random, client = np.random.default_rng(seed), Client(port)
    due = np.cumsum(random.exponential(1 / rate, int(2 * rate * seconds + 50)))
    due = due[due < seconds]
    chosen = random.integers(len(requests), size=len(due))
    began, found = time.monotonic() + 0.1, []

    async def one(at: float, place: int):
        status, body = await client.ask(requests[place])
        answer = json.loads(body) if status == 200 else {}
        said = answer["predictions"][0]["label"] if answer else None
        true, full = labels[place]
        found.append((status, time.monotonic() - began - at, said == true, answer.get("form"), full == true))

    waiting = set()
    for at, place in zip(due, chosen, strict=True):
        pause = began + at - time.monotonic()
        if pause > 0:
            await asyncio.sleep(pause)
        task = asyncio.create_task(one(float(at), int(place)))
        waiting.add(task)
        task.add_done_callback(waiting.discard)
    await asyncio.wait_for(asyncio.gather(*waiting), GIVEN_UP)
    return summary(found)


def summary(found: list) -> dict:
    answered = [row for row in found if row[0] == 200]
    times = 1000 * np.array([row[1] for row in answered])
    return {
        "requests": len(found),
        "refused_percent": 100 * sum(row[0] == 503 for row in found) / len(found),
        "failed": sum(row[0] not in (200, 503) for row in found),
        "p50_ms": float(np.quantile(times, 0.5)),
        "p99_ms": float(np.quantile(times, 0.99)),
        "accuracy": 100 * sum(row[2] for row in answered) / len(answered),
        "points_lost": 100 * sum(row[4] - row[2] for row in answered) / len(answered),
        "forms": dict(Counter(row[3] for row in answered)),
    }


def measured(run: Path, seconds: float, p99_ms: float) -> dict:
    requests, labels = test_set(run)
    target = ("--p99-ms", f"{p99_ms:g}")
    os.sched_setaffinity(0, CORES[-1:])
    rows = []
    with server(run, "--fixed", *target) as (fixed, _), server(run, *target) as (following, _):
        full = capacity(fixed, requests, labels)
        pairs = list(zip(labels, full.pop("labels"), strict=True))
        for times in TIMES:
            for name, port in (("follows the load", following), ("fixed depth", fixed)):
                rate = times * full["requests_a_second"]
                told = asyncio.run(flood(port, requests, pairs, rate, seconds, seed=int(10 * times)))
                rows.append({"server": name, "times": times, "rate": rate} | told)
                sys.stderr.write(f"{line_of(rows[-1])}\n")
    return {
        "p99_ms": p99_ms,
        "seconds": seconds,
        "capacity": full,
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
        "date": time.strftime("%d %B %Y"),
        "rows": rows,
    }


def line_of(row: dict) -> str:
    forms = ", ".join(f"{name} {100 * n / sum(row['forms'].values()):.0f} %" for name, n in row["forms"].items())
    return (
        f"| {row['times']:g} | {row['server']} | {row['p50_ms']:.0f} ms | {row['p99_ms']:.0f} ms | "
        f"{row['refused_percent']:.1f} % | {row['accuracy']:.2f} % | {row['points_lost']:.2f} | {forms} |"
    )


def table(found: dict) -> str:
    full = found["capacity"]
    return "\n".join(
        [
            f"Target: 99 % within {found['p99_ms']:g} ms. A request alone takes {full['alone_ms']:.1f} ms at full "
            f"depth, {100 * full['share_in_pass_alone']:.0f} % of it in the pass. Full depth serves at most "
            f"{full['requests_a_second']:.0f} requests a second, {100 * full['share_in_passes']:.0f} % of the time "
            f"in passes; its accuracy is {full['accuracy']:.2f} %. {found['seconds']:g} s for every row, "
            f"{found['machine']}, {found['date']}.",
            "",
            "| load | server | p50 | p99 | refused | accuracy | points lost | forms |",
            "| ---: | --- | ---: | ---: | ---: | ---: | ---: | --- |",
            *map(line_of, found["rows"]),
            "",
        ]
    )


def main() -> None:
    reader = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    reader.add_argument("--run", type=Path, default=Path("runs/load"))
    reader.add_argument("--seconds", type=float, default=30.0)
    reader.add_argument("--p99-ms", type=float, default=100.0)
    reader.add_argument("--out", type=Path, default=Path("benchmarks/load.json"))
    given = reader.parse_args()
    found = measured(prepared(given.run), given.seconds, given.p99_ms)
    given.out.write_text(json.dumps(found, indent=1) + "\n")
    with suppress(OSError):
        given.out.with_suffix(".md").write_text(table(found))
    sys.stdout.write(table(found))


if __name__ == "__main__":
    main()
