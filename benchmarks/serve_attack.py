"""Clients that do wrong, beside clients that do not: what `anydepth serve` makes of them.

    python benchmarks/serve_attack.py [--run DIR] [--seconds 120] [--clients 16] [--bad 0.2]

One in five requests is malformed: no JSON, NaN, huge arrays, image bombs, truncated images, wrong types, slow bodies,
closed connections. Then SIGTERM comes in the middle of the load. Prints one JSON object: statuses, wrong answers (that
differ from `anydepth predict`'s by more than 1e-5), memory, and accepted requests that were not answered at the end.
"""

import argparse
import http.client
import json
import random
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import zlib
from collections import Counter
from io import BytesIO
from pathlib import Path

import numpy as np
from load import prepared, server

JSON, PNG = "application/json", "image/png"
EXAMPLES = 40


def resident(process: subprocess.Popen) -> float:
    """Megabytes."""
    return int(Path(f"/proc/{process.pid}/statm").read_text().split()[1]) * 4096 / 1e6


def png(pixels: np.ndarray) -> bytes:
    from PIL import Image

    to = BytesIO()
    Image.fromarray(pixels).save(to, "PNG")
    return to.getvalue()


def bomb() -> bytes:
    """A PNG whose header promises 60,000 x 60,000 pixels."""
    content = bytearray(png(np.zeros((8, 8), np.uint8)))
    content[16:24] = (60_000).to_bytes(4, "big") * 2
    content[29:33] = zlib.crc32(content[12:29]).to_bytes(4, "big")
    return bytes(content)


def wrong_requests() -> list[tuple[bytes, str]]:
    """Bodies with their content types."""
    whole = png(np.random.default_rng(0).integers(0, 256, (8, 8), np.uint8))
    return [
        (b'{"inputs": [', JSON),
        (b'{"inputs": ' + b"[" * 50_000, JSON),
        (b'{"inputs": [NaN]}', JSON),
        (b'{"inputs": [[[[1e999]]]]}', JSON),
        (b'{"inputs": {"a": 1}}', JSON),
        (b'{"inputs": [["a"]]}', JSON),
        (json.dumps({"inputs": np.zeros((500, 1, 8, 8)).tolist()}).encode(), JSON),
        (b" " * 6_000_000, JSON),
        (bomb(), PNG),
        (whole[:60], PNG),
        (whole[:-40], PNG),
        (png(np.zeros((3000, 2000), np.uint8)), PNG),
        (b"MZ\x90", "image/jpeg"),
        (b"some words", "text/plain"),
        (b"\x00" * 1000, "application/octet-stream"),
    ]


class Clients:
    """Threads that ask until they are told to stop."""

    def __init__(self, port: int, run: Path, share: float):
        self.port, self.share, self.is_over = port, share, False
        self.statuses: Counter[str] = Counter()
        self.wrong, self.lost, self.bad = 0, 0, wrong_requests()
        self.pixels, self.wanted = expected(run)

    def work(self, seed: int) -> None:
        draw = random.Random(seed)
        while not self.is_over:
            if draw.random() < self.share:
                self.attack(draw)
            else:
                self.ask(draw.randrange(EXAMPLES), draw.random() < 0.5)
            if "none refused" in self.statuses:
                time.sleep(0.05)

    def post(self, body: bytes, kind: str, query: str = "") -> tuple[int, bytes] | None:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            connection.request("POST", f"/predict{query}", body, {"Content-Type": kind})
            answer = connection.getresponse()
            return answer.status, answer.read()
        except (ConnectionRefusedError, BrokenPipeError, ConnectionResetError):  # at the end: never accepted
            self.statuses["none refused"] += 1
            return None
        except (OSError, http.client.HTTPException):
            self.lost += 1
            return None
        finally:
            connection.close()

    def ask(self, place: int, is_image: bool) -> None:
        """A valid request at full depth, whose answer is compared."""
        pixels = self.pixels[place]
        body = png(pixels[0]) if is_image else json.dumps({"inputs": [pixels.tolist()]}).encode()
        reply = self.post(body, PNG if is_image else JSON, "?form=rk4-16")
        if reply is None:
            return
        self.statuses[f"valid {reply[0]}"] += 1
        if reply[0] == 200:
            found, wanted = json.loads(reply[1])["predictions"][0], self.wanted[place]
            is_same = found["label"] == wanted["label"] and abs(found["probability"] - wanted["probability"]) <= 1e-5
            self.wrong += not is_same

    def attack(self, draw: random.Random) -> None:
        place = draw.randrange(len(self.bad) + 2)
        if place < len(self.bad):
            reply = self.post(*self.bad[place])
            if reply is not None:
                self.statuses[f"malformed {reply[0]}"] += 1
            return
        head = b"POST /predict HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 5000\r\n\r\n{"
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=60) as made:
                made.sendall(head)
                if place == len(self.bad):  # a slow body
                    answer = made.recv(100)
                    self.statuses[f"slow {answer[9:12].decode()}"] += 1
        except OSError:
            self.statuses["slow cut"] += 1


def expected(run: Path) -> tuple[np.ndarray, list[dict]]:
    """Test images, and what `anydepth predict` says of them."""
    from anydepth.runs.folder import open_run

    pixels = open_run(run).dataset(None).part("test").pixels[:EXAMPLES]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "images.npy"
        np.save(path, pixels)
        command = [sys.executable, "-m", "anydepth", "predict", str(run), str(path), "--json"]
        said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return pixels, next(iter(json.loads(said)["predictions"].values()))


def attacked(run: Path, seconds: float, count: int, share: float) -> dict:
    with server(run, "--p99-ms", "2000", "--max-seconds", "10") as (port, process):
        clients = Clients(port, run, share)
        threads = [threading.Thread(target=clients.work, args=(seed,)) for seed in range(count)]
        for thread in threads:
            thread.start()
        sizes, began = [], time.monotonic()
        while time.monotonic() - began < seconds:
            time.sleep(seconds / 40)
            sizes.append(resident(process))
        process.send_signal(signal.SIGTERM)
        code = process.wait(60)
        clients.is_over = True
        for thread in threads:
            thread.join()
    early, late = (float(np.median(part)) for part in (sizes[10:20], sizes[-10:]))
    return {
        "seconds": seconds,
        "clients": count,
        "statuses": dict(sorted(clients.statuses.items())),
        "server_errors_but_503": sum(
            n for name, n in clients.statuses.items() if name.split()[1][0] == "5" and not name.endswith("503")
        ),
        "wrong_answers": clients.wrong,
        "accepted_but_not_answered": clients.lost,
        "memory_mb": {"after a quarter": round(early, 1), "at the end": round(late, 1)},
        "memory_growth_percent": round(100 * (late / early - 1), 2),
        "exit_code": code,
    }


def main() -> None:
    reader = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    reader.add_argument("--run", type=Path, default=Path("runs/load"))
    reader.add_argument("--seconds", type=float, default=120.0)
    reader.add_argument("--clients", type=int, default=16)
    reader.add_argument("--bad", type=float, default=0.2)
    given = reader.parse_args()
    found = attacked(prepared(given.run), given.seconds, given.clients, given.bad)
    sys.stdout.write(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
