"""Large activations stay with the process between passes, in blocks and in frozen networks."""

import platform
import subprocess
import sys

import pytest

FAULTS = """
import resource, torch, anydepth as ad
torch.set_num_threads(1)
model = ad.ContinuousBlock(lambda: ad.units.PreactConv(32), steps=4, scheme="euler").eval()
if {frozen}:
    model = ad.freeze(model)
x = torch.randn(128, 32, 16, 16).contiguous(memory_format=torch.channels_last)
def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt
with torch.inference_mode():
    for _ in range(4):
        model(x)
    before = faults()
    for _ in range(4):
        model(x)
    print((faults() - before) // 4)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another C library")
@pytest.mark.parametrize("frozen", [False, True])
def test_a_pass_takes_no_fresh_memory(frozen):
    """An activation has 1,024 pages."""
    program = [sys.executable, "-c", FAULTS.format(frozen=frozen)]
    done = subprocess.run(program, capture_output=True, text=True, check=True)
    assert int(done.stdout) < 200
