"""The one line for people who wait while something is compiled."""

import sys

_ANNOUNCED: set[str] = set()


def announce(what: str) -> None:
    """One line on standard error, once per process."""
    if what not in _ANNOUNCED and sys.stderr is not None:
        _ANNOUNCED.add(what)
        sys.stderr.write(f"anydepth: compiling {what}; this takes some seconds, once per machine\n")
        sys.stderr.flush()
