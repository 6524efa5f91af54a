"""Running the command line in this process."""

from typing import NamedTuple

import pytest

from anydepth.cli.main import main


class Done(NamedTuple):
    code: int
    out: str
    err: str


def run_command(capsys, *arguments):
    """Exit code, standard output and standard error of a command."""
    capsys.readouterr()
    with pytest.raises(SystemExit) as stopped:
        main([str(argument) for argument in arguments])
    return Done(int(stopped.value.code or 0), *capsys.readouterr())


def assert_refused(done, code, *says):
    """One line on standard error, nothing on standard output."""
    assert done.code == code, done.err
    assert done.out == ""
    assert len(done.err.strip().splitlines()) == 1, done.err
    assert "Traceback" not in done.err
    for word in says:
        assert word in done.err, done.err
