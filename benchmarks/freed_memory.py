"""Milliseconds and page faults of a pass, with freed memory kept between passes, and given back to the system.

Eight residual units of 32 channels, 16 x 16 pixels, 128 images, two threads; a process for each case, in turns.
"""

import argparse
import resource
import subprocess
import sys
from statistics import median
from time import perf_counter

import torch

import anydepth as ad
from anydepth.deploy import freeze
from anydepth.fast import image_path

ROUNDS = 2
PASSES = 12


def measured(network: torch.nn.Module, x: torch.Tensor) -> str:
    times, before = [], 0
    with torch.inference_mode():
        for number in range(PASSES + 3):
            if number == 3:
                times, before = [], resource.getrusage(resource.RUSAGE_SELF).ru_minflt
            start = perf_counter()
            network(x)
            times.append(1e3 * (perf_counter() - start))
    faults = (resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before) // PASSES
    return f"{median(times):.1f} ms, {faults:,} faults"


def one(is_kept: bool) -> None:
    torch.set_num_threads(2)
    torch.manual_seed(0)
    if not is_kept:
        image_path.keep_freed_blocks = freeze.keep_freed_blocks = lambda: None
    block = ad.ContinuousBlock(lambda: ad.units.PreactConv(32), size=8, steps=8, scheme="euler").eval()
    x = torch.randn(128, 32, 16, 16).contiguous(memory_format=torch.channels_last)
    found = (f"block {measured(block, x)}", f"frozen {measured(ad.freeze(block), x)}")
    print("kept" if is_kept else "given back", *found, sep="; ")  # noqa: T201


if __name__ == "__main__":
    reader = argparse.ArgumentParser(description=__doc__)
    reader.add_argument("--case", choices=("kept", "given-back"))
    case = reader.parse_args().case
    if case is not None:
        one(case == "kept")
    else:
        for name in ("given-back", "kept") * ROUNDS:
            subprocess.run([sys.executable, __file__, "--case", name], check=True)
