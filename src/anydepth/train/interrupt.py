"""Ctrl-C and SIGTERM: the first asks the training to save and stop, the second stops it at once."""

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Interrupt:
    """Which signal came, if any."""

    received: int | None = None

    def handle(self, number: int, _frame: FrameType | None) -> None:
        if self.received is not None:
            os._exit(128 + number)
        self.received = number


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
