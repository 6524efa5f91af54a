"""Threads of our own that help with a kernel's tasks.

Tasks are taken from a counter, by the thread that asked and by any helper that has woken up; a helper that comes late
finds none left. So nobody waits for a thread that has not begun, and a fork or a busy machine cannot stop a pass.
"""

import os
import threading
import time
from collections.abc import Callable
from queue import SimpleQueue

import numpy as np

Job = tuple[Callable[..., None], tuple]


class Pool:
    """Helpers, started when they are first needed."""

    def __init__(self) -> None:
        self.jobs: SimpleQueue[Job] = SimpleQueue()
        self.helpers = 0
        self._lock = threading.Lock()

    def ask(self, count: int, job: Job) -> None:
        """Let so many helpers join, unless they are behind with earlier jobs."""
        with self._lock:
            for _ in range(count - self.helpers):
                self.helpers += 1
                threading.Thread(target=_help, args=(self.jobs,), name="anydepth-native", daemon=True).start()
        for _ in range(min(count, 2 * self.helpers - self.jobs.qsize())):
            self.jobs.put(job)


def _help(jobs: "SimpleQueue[Job]") -> None:
    while True:
        kernel, args = jobs.get()
        kernel(*args)
        del kernel, args  # what a job holds is not kept until the next one


_POOL = Pool()


def _forget() -> None:
    """In a forked process there are no helpers."""
    global _POOL
    _POOL = Pool()


os.register_at_fork(after_in_child=_forget)


def run(kernel: Callable[..., None], wait: Callable[..., bool], tasks: int, threads: int, *args: object) -> None:
    """All tasks of a kernel, on up to so many threads; back when all are done."""
    counters = np.zeros(3, np.int64)
    helpers = min(threads, tasks) - 1
    if helpers > 0:
        _POOL.ask(helpers, (kernel, (tasks, counters, *args)))
    kernel(tasks, counters, *args)
    while helpers > 0 and not wait(counters, tasks):
        time.sleep(0)
