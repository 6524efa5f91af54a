"""Shared set-up: one thread per worker, so that parallel tests do not slow each other; the bundled digits read once."""

import os
from functools import cache
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("MKL_NUM_THREADS", "1")
os.environ.setdefault("MKL_CBWR", "AVX2")

import pytest
import torch
from hypothesis import settings

torch.set_num_threads(1)
settings.register_profile("anydepth", deadline=None, max_examples=60, derandomize=True)
settings.register_profile("soak", deadline=None, max_examples=100_000)
settings.load_profile("anydepth")  # `make soak` says --hypothesis-profile=soak


@pytest.fixture(autouse=True)
def _one_thread_fixed_seed():
    torch.set_num_threads(1)  # a test may have changed it
    torch.manual_seed(0)


@pytest.fixture(scope="module")
def fuzzed(tmp_path_factory):
    """A folder for property tests to write into; one for all examples, for making 100,000 takes hours."""
    return tmp_path_factory.mktemp("fuzz")


@pytest.fixture(scope="session", autouse=True)
def _digits_read_once():
    """Parsing their text file takes longer than a tiny training."""
    from anydepth.data.sources.digits import Digits

    read = Digits.read

    @cache
    def kept(part):
        images = read(Digits(Path()), part)
        for array in (images.pixels, images.classes):
            array.flags.writeable = False
        return images

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Digits, "read", lambda self, part: kept(part))
        yield
