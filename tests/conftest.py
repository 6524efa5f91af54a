"""Shared set-up: one thread per worker, so that parallel tests do not slow each other."""

import os

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
