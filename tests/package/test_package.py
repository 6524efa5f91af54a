"""The package as a whole: lazy imports, public names, layers."""

import importlib
import subprocess
import sys

import pytest

import anydepth as ad
from anydepth.errors import ConfigError


def test_every_public_name_is_there():
    for name in ad.__all__:
        assert getattr(ad, name) is not None
    with pytest.raises(AttributeError):
        _ = ad.no_such_name


@pytest.mark.parametrize("module", ["anydepth", "anydepth.cli.main", "anydepth.depth.transfer", "anydepth.depth.bases"])
def test_importing_does_not_import_torch(module):
    code = f"import sys, {module}; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_parts_are_found_by_importing_their_package_and_names_are_unique(tmp_path, monkeypatch):
    package = tmp_path / "some_parts"
    package.mkdir()
    (package / "__init__.py").write_text("from anydepth.registry import Registry\nPARTS = Registry('part', __name__)\n")
    (package / "one.py").write_text("from some_parts import PARTS\nPARTS.add('one', 1)\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    parts = importlib.import_module("some_parts").PARTS
    assert parts.names() == ["one"]
    with pytest.raises(ConfigError, match="twice"):
        parts.add("one", 2)
    with pytest.raises(ConfigError, match="did you mean 'one'"):
        parts["onee"]
