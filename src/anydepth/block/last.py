"""The statistics of every thread's last pass; never saved, never copied."""

from threading import local

from anydepth.solve.adaptive import Stats


class LastPass(local):
    """Each thread sees its own."""

    def __init__(self) -> None:
        self.stats = Stats()

    def __deepcopy__(self, memo: dict) -> "LastPass":
        return LastPass()

    def __reduce__(self) -> tuple:
        return LastPass, ()
