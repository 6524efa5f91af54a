"""Plugins: parts and commands of other packages, loaded when needed, and blamed by name when they fail."""

import json
import subprocess
import sys
from importlib.metadata import EntryPoint

import pytest
from torch import nn

import anydepth as ad
from anydepth import plugins
from anydepth.cli import main as command_line
from anydepth.depth.bases import BASES
from anydepth.depth.schemes import SCHEMES, Scheme
from anydepth.errors import AnydepthWarning, ConfigError, PluginError
from anydepth.registry import Registry
from anydepth.runs.foreign_parts import DATA_KINDS, DEPTH_KINDS, MODEL_KINDS, Need, check_needs, depth_needs
from anydepth.weights.evolutions import EVOLUTIONS
from command import assert_refused, run_command

PACKAGE = {
    "__init__.py": "",
    "plugin.py": "PARTS = {'thing': 'some_plugin.things', 'command': 'some_plugin.commands'}\n"
    "LISTS = {'others': 'some_plugin.others:OTHERS'}\n",
    "others.py": "from anydepth.registry import Registry\nOTHERS = Registry('other')\nOTHERS.add('mine', 'listed')\n",
    "things/__init__.py": "",
    "things/two.py": "from test_plugins import HOLDER\nHOLDER[0].add('two', 2)\nassert 'one' in HOLDER[0].names()\n",
    "commands/__init__.py": "",
    "commands/hello.py": "import typer\n\ndef register(app):\n    app.command('hello')(lambda: typer.echo('hello'))\n",
    "broken.py": "raise RuntimeError('a fuse blew')\n",
    "whole.py": "import typer\n\ndef register(app):\n    app.command('whole')(lambda: typer.echo('whole'))\n",
    "clumsy.py": "def register(app):\n    app.no_such_method('hello')\n",
    "direct.py": "def register():\n    from test_plugins import HOLDER\n    HOLDER[0].add('direct', 3)\n",
}
HOLDER: list[Registry] = []
"""The registry of a test, for the plugin's modules to find."""


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """Make entry points of a package on disk the only ones."""
    for name, text in PACKAGE.items():
        path = tmp_path / "some_plugin" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(plugins, "_found", {})
    monkeypatch.setitem(sys.modules, "test_plugins", sys.modules[__name__])
    HOLDER[:] = [Registry("thing")]
    HOLDER[0].add("one", 1)

    def install(**values):
        entries = tuple(EntryPoint(name, value, plugins.GROUP) for name, value in values.items())
        monkeypatch.setattr(plugins, "_entries", lambda: entries)
        return HOLDER[0]

    yield install
    for name in [name for name in sys.modules if name.split(".")[0] == "some_plugin"]:
        del sys.modules[name]
    plugins._plugin.cache_clear()


def test_parts_of_plugins_are_found_when_they_are_needed(installed):
    things = installed(some="some_plugin.plugin")
    assert things["one"] == 1
    assert "some_plugin.things.two" not in sys.modules
    assert things["two"] == 2
    assert things.names() == ["one", "two"]


def test_an_entry_point_may_be_a_function(installed):
    assert installed(direct="some_plugin.direct:register")["direct"] == 3


def test_a_broken_plugin_stops_only_those_who_need_it(installed):
    things = installed(bad="some_plugin.broken", some="some_plugin.plugin")
    assert things["one"] == 1
    with pytest.raises(PluginError, match=r"plugin 'bad' of some_plugin.broken cannot be loaded: RuntimeError: a fuse"):
        things["three"]
    with pytest.warns(AnydepthWarning, match="'bad'"):
        assert things.names() == ["one", "two"]
    with pytest.warns(AnydepthWarning, match="'bad'"):
        assert list(plugins.lists()) == ["others"]


@pytest.mark.parametrize("value", ["no_such_module_at_all", "some_plugin.plugin:nothing"])
def test_what_is_not_there_names_the_plugin(installed, value):
    with pytest.raises(PluginError, match=r"plugin 'bad'") as caught:
        installed(bad=value)["three"]
    assert "\n" not in str(caught.value)


def test_a_name_that_is_taken_names_the_plugin_every_time(installed):
    things = installed(some="some_plugin.plugin")
    things.add("two", 0)
    for _ in range(2):
        with pytest.raises(PluginError, match=r"plugin 'some'.*registered twice"):
            things["three"]


@pytest.fixture
def commands(installed, monkeypatch):
    """The command line as it was before any plugin joined."""
    command_line._register_commands.cache_clear()
    monkeypatch.setattr(command_line.app, "registered_commands", list(command_line.app.registered_commands))
    yield installed
    command_line._register_commands.cache_clear()


def test_commands_of_plugins_are_there(commands, capsys):
    commands(some="some_plugin.plugin")
    assert run_command(capsys, "hello").out == "hello\n"
    assert "hello" in run_command(capsys, "--help").out


@pytest.mark.parametrize("words", [("whole",), ("whole", "--import", "some_plugin.whole")])
def test_a_module_without_parts_may_have_commands(commands, capsys, words):
    """Loaded in both ways, it joins once."""
    commands(whole="some_plugin.whole")
    assert run_command(capsys, *words).out == "whole\n"
    assert run_command(capsys, "--help").out.count("  whole") == 1


def test_a_run_of_a_package_that_is_not_installed_says_how_to_get_it(commands):
    commands()
    needs = [Need(kind="unit", name="of_nobody", module="theirs"), Need(kind="model", name="no_anode", module="m")]
    with pytest.raises(ConfigError, match=r"needs unit 'of_nobody' of module 'theirs'.*--import theirs"):
        check_needs(needs, "runs/x", MODEL_KINDS)
    check_needs(needs, "runs/x", DATA_KINDS)
    lost = Need(kind="unit", name="conv_norm", module="anydepth_papers.units.conv_norm")
    with pytest.raises(ConfigError, match=r"runs/x: unit 'conv_norm' is in the package anydepth-papers"):
        check_needs([lost], "runs/x", (Registry("unit"),))


def test_outside_bases_evolutions_and_schemes_are_needed(monkeypatch):
    """By the config and by the model; a scheme is an object, whose module is the one that added it."""
    for registry in DEPTH_KINDS:
        monkeypatch.setattr(registry, "_parts", {name: registry[name] for name in registry})
        monkeypatch.setattr(registry, "_added_by", dict(registry._added_by))
    theirs = {"__module__": "theirs"}
    BASES.add("mine", type("Mine", (type(BASES["legendre"](1)),), {"name": "mine", **theirs}))
    EVOLUTIONS.add("mine", type("Mine", (EVOLUTIONS["none"],), theirs))
    SCHEMES.add("mine", Scheme("mine", SCHEMES["rk4"].a, SCHEMES["rk4"].b))
    weights = {"weight": ("mine", 2), "bias": ad.Evolved("mine")}
    block = ad.ContinuousBlock(lambda: nn.Linear(2, 2), scheme="mine", steps=2, weights=weights)
    found = depth_needs(block, {"any_depth": [{"scheme": "mine"}, {"basis": "linear"}]})
    here = __name__
    assert {(need.kind, need.name, need.module) for need in found} == {
        ("basis", "mine", "theirs"), ("evolution", "mine", "theirs"), ("scheme", "mine", here),
    }  # fmt: skip
    assert len(found) == 3
    monkeypatch.undo()
    for need in found:
        with pytest.raises(ConfigError, match=rf"needs {need.kind} 'mine'.*--import {need.module}"):
            check_needs([need], "runs/x", MODEL_KINDS)


def test_a_broken_plugin_is_named_and_the_other_commands_work(commands, capsys):
    commands(bad="some_plugin.broken")
    assert_refused(run_command(capsys, "hello"), 2, "plugin 'bad'", "a fuse blew")
    assert run_command(capsys, "data", "path").code == 0
    helped = run_command(capsys, "--help")
    assert helped.code == 0
    assert "plugin 'bad'" in helped.err


def test_an_error_in_register_names_the_plugin_and_the_other_commands_work(commands, capsys):
    commands(bad="some_plugin.clumsy", some="some_plugin.plugin")
    assert_refused(run_command(capsys, "hello"), 2, "plugin 'bad'", "some_plugin.clumsy", "no_such_method")
    helped = run_command(capsys, "--help")
    assert helped.code == 0
    assert "plugin 'bad'" in helped.err
    assert "hello" in helped.out
    done = run_command(capsys, "data", "path", "--import", "some_plugin.clumsy")
    assert_refused(done, 2, "some_plugin.clumsy", "no_such_method")


def test_lists_of_plugins_are_listed(commands, capsys):
    commands(some="some_plugin.plugin")
    assert "mine" in json.loads(run_command(capsys, "list", "--json").out)["others"]


def test_without_the_papers_the_line_says_how_to_get_them(commands, capsys):
    commands()
    for command in ("reproduce", "campaign", "bench"):
        assert_refused(run_command(capsys, command, "x"), 2, "anydepth-papers", "pip install -e papers")
    for registry, name in ((Registry("recipe"), "anodev2-resnet4-anode"), (Registry("model"), "anode")):
        with pytest.raises(ConfigError, match="is in the package anydepth-papers"):
            registry[name]


def test_plugins_do_not_make_the_command_line_import_torch():
    code = "import sys\nfrom anydepth import plugins\nplugins.modules_of('command')\nsys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
