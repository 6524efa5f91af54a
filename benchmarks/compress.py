"""How long compressing a 13.6-million-parameter model takes, in a fresh process and repeated.

Run: .venv/bin/python benchmarks/compress.py
"""

import json
import statistics
import time

import anydepth as ad

WIDE = {"channels": [64, 128, 256], "classes": 100, "unit": "skip_init_conv", "first_stitch": False}


def main() -> None:
    model = ad.build("image", **WIDE, size=8, stitch_skip_init=True)
    times = []
    for target in (
        {"size": 4},
        {"basis": "linear", "size": 4},
        {"basis": "legendre", "size": 4},
        {"size": 2},
        {"size": 1},
    ):
        began = time.perf_counter()
        ad.compress(model, **target)
        times.append(time.perf_counter() - began)
    result = {
        "parameters": sum(p.numel() for p in model.parameters()),
        "first_seconds": round(times[0], 3),
        "median_seconds": round(statistics.median(times), 3),
    }
    print(json.dumps(result))  # noqa: T201


if __name__ == "__main__":
    main()
