"""The package as a whole: lazy imports, public names, layers."""

import subprocess
import sys

import pytest

import anydepth as ad


def test_every_public_name_is_there():
    for name in ad.__all__:
        assert getattr(ad, name) is not None
    with pytest.raises(AttributeError):
        _ = ad.no_such_name


@pytest.mark.parametrize("module", ["anydepth", "anydepth.cli.main", "anydepth.depth.transfer", "anydepth.depth.bases"])
def test_importing_does_not_import_torch(module):
    code = f"import sys, {module}; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_new_basis_is_found_and_a_second_of_the_same_name_refused():
    from anydepth.errors import ConfigError

    with pytest.raises(ConfigError, match="twice"):
        ad.BASES.add("linear", ad.BASES["linear"])
