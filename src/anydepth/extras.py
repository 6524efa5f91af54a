"""Packages that only some users need, and the extra that installs them."""

from importlib.util import find_spec

from anydepth.errors import ConfigError


def demand(what: str, *packages: str, extra: str = "cli") -> None:
    """Refuse to go on without these packages, in one line that says how to install them."""
    missing = [package for package in packages if find_spec(package) is None]
    if missing:
        names = ", ".join(missing)
        raise ConfigError(f"{what} needs {names}, which is not installed; run: pip install 'anydepth[{extra}]'")
