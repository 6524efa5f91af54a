"""Ctrl-C and SIGTERM: the first asks the training to save and stop, the second stops it at once."""

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic
from types import FrameType

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Interrupt:
    """Which signal came, if any."""

    received: int | None = None

    def __init__(self) -> None:
        launched = "TORCHELASTIC_RUN_ID" in os.environ
        self.patience = 10.0 if launched else 0.0
        """Seconds within which torchrun passes on a signal that has already come."""

    def handle(self, number: int, _frame: FrameType | None) -> None:
        if self.received is None:
            self.received, self.since = number, monotonic()
        elif monotonic() - self.since >= self.patience:
            os._exit(128 + number)


@contextmanager
def interruptible() -> Iterator[Interrupt]:
    """Signals are noted instead of raised; outside the main thread they are left alone."""
    interrupt = Interrupt()
    if threading.current_thread() is not threading.main_thread():
        yield interrupt
        return
    before = {number: signal.signal(number, interrupt.handle) for number in _SIGNALS}
    try:
        yield interrupt
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
