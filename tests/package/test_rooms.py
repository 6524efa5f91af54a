"""What is registered is exported, and what a config may name is registered."""

from collections import Counter
from pathlib import Path

import pytest
from torch import nn

import anydepth
import anydepth as ad
import anydepth_papers
from anydepth.block.paths import GRADIENTS
from anydepth.errors import ConfigError
from anydepth.runs.config import RunConfig, read_config
from anydepth.train.control.controller import CONTROLLERS
from small_runs import TINY, tiny


@pytest.mark.parametrize(("registry", "package"), [(ad.UNITS, ad.units), (ad.MODELS, ad.models)])
def test_every_part_of_anydepth_is_exported(registry, package):
    own = {registry[name] for name in registry if registry[name].__module__.startswith("anydepth.")}
    assert own == {getattr(package, name) for name in package.__all__}
    assert all(issubclass(part, nn.Module) for part in own)


def test_controllers_of_a_config_are_the_registered_ones():
    variants = RunConfig.model_fields["control"].annotation.__args__
    assert {variant.model_fields["name"].default for variant in variants} - {"none", "own"} == set(CONTROLLERS)


@pytest.mark.parametrize("mode", GRADIENTS.names())
def test_gradient_modes_of_a_config_are_those_of_the_solvers(mode):
    assert tiny(f"model.gradient={mode}").model.gradient == mode


def test_an_unknown_gradient_mode_is_refused_with_the_known_ones():
    with pytest.raises(ConfigError, match=r"model.gradient: unknown gradient mode; .*did you mean 'adjoint'"):
        read_config(TINY | {"model": TINY["model"] | {"gradient": "adjiont"}})


@pytest.mark.parametrize("package", [anydepth, anydepth_papers], ids=lambda package: package.__name__)
def test_no_file_name_occurs_twice(package):
    times = Counter(path.name for path in Path(package.__file__).parent.rglob("*.py"))
    assert [name for name, count in times.items() if count > 1 and not name.startswith("__")] == []
