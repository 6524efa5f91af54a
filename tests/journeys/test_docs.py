"""The code in the documentation runs, every public name is documented, and the pages agree with the code."""

import importlib.util
import re
import shlex
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from typer.main import get_command

from anydepth.cli.main import _join_plugins as join_plugins
from anydepth.cli.main import app

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
TESTED_ELSEWHERE = {"extending.md": "test_extending.py", "index.md": "its code is that of README.md"}
TUTORIALS = sorted((ROOT / "docs/tutorials").glob("*.py"))
FENCED = re.compile(r"^ *```(\w*)[^\n]*\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
NEEDS = {"lightning": "lightning"}
QUICK = {"your_own_layers"}


def code_of(page: Path) -> str:
    return "\n".join(re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL))


def hook(name: str) -> ModuleType:
    if name not in sys.modules:
        found = importlib.util.spec_from_file_location(name, ROOT / f"docs/hooks/{name}.py")
        assert found is not None
        assert found.loader is not None
        sys.modules[name] = importlib.util.module_from_spec(found)
        found.loader.exec_module(sys.modules[name])
    return sys.modules[name]


@pytest.mark.parametrize(
    "page", [page for page in PAGES if code_of(page) and page.name not in TESTED_ELSEWHERE], ids=lambda page: page.name
)
def test_code_on_the_page_runs(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    exec(compile(code_of(page), str(page), "exec"), {"__name__": "__main__"})  # noqa: S102


def test_the_home_page_shows_the_code_of_the_readme():
    assert code_of(ROOT / "docs/index.md") == code_of(ROOT / "README.md")


def mark(path: Path):
    return pytest.param(path, id=path.stem, marks=() if path.stem in QUICK else pytest.mark.slow)


@pytest.mark.parametrize("script", [mark(path) for path in TUTORIALS])
def test_tutorials_run(script):
    if script.stem in NEEDS:
        pytest.importorskip(NEEDS[script.stem])
    notebook = hook("notebook")
    cells = notebook.run(script)
    text, images = notebook.page(cells, script.stem)
    assert len(images) == text.count("![Figure")
    assert '"nbformat": 4' in notebook.notebook(cells)


@pytest.mark.parametrize("script", TUTORIALS, ids=lambda path: path.stem)
def test_tutorials_are_in_the_navigation_and_the_overview(script):
    assert f"tutorials/{script.stem}.md" in (ROOT / "mkdocs.yml").read_text()
    assert f"({script.stem}.md)" in (ROOT / "docs/tutorials/index.md").read_text()


def test_every_public_name_has_a_docstring_and_a_place_in_the_reference():
    reference = "\n".join(page.read_text() for page in (ROOT / "docs/api").glob("*.md"))
    assert hook("public_names").faults(reference) == []


def test_a_name_without_a_place_in_the_reference_is_found():
    assert any("ContinuousBlock" in fault for fault in hook("public_names").faults(""))


def test_the_help_of_every_command_is_a_page():
    page = hook("public_names").commands()
    for command in ("anydepth train", "anydepth data fetch", "anydepth check"):
        assert f"## {command}\n" in page


def test_links_that_lead_nowhere_are_found(tmp_path):
    (tmp_path / "a.html").write_text(
        '<h1 id="top"></h1><a href="b.html#there"></a><a href="#top"></a><img src="no.png">'
    )
    (tmp_path / "b.html").write_text(
        '<a name="there"></a><a href="a.html#gone"></a><script src="https://x.org/y"></script>'
    )
    assert hook("links").faults(tmp_path) == [
        "a.html: no.png leads to no file",
        "b.html: a.html#gone leads to no anchor",
        "b.html: https://x.org/y is loaded from elsewhere",
    ]


def shell_lines() -> list[str]:
    """All calls of the command line in the blocks of code of the documentation."""
    pages = [
        *PAGES,
        ROOT / "CONTRIBUTING.md",
        ROOT / "papers/README.md",
        *(ROOT / "papers/docs").glob("*.md"),
        *TUTORIALS,
    ]
    fenced = [found for page in pages for found in FENCED.findall(page.read_text())]
    lines = [line.strip() for language, block in fenced if language in ("", "bash") for line in block.splitlines()]
    return sorted({line for line in lines if re.match(r"(echo .*\| |torchrun .*-m )?anydepth ", line)})


def test_there_are_commands_in_the_docs():
    assert len(shell_lines()) > 60


@pytest.mark.parametrize("line", shell_lines())
def test_commands_in_the_docs_have_arguments_that_exist(line):
    words = shlex.split(line[line.index("anydepth ") :], comments=True)[1:]
    join_plugins([])
    command: Any = get_command(app)
    context = command.context_class(command)
    if words[0] in ("--version", "COMMAND", "hello"):  # hello is the command that extending.md adds
        return
    while hasattr(command, "commands"):
        command = command.commands[words.pop(0)]
        words = words[2:] if words[:1] == ["--import"] else words
    if "--import" in words:
        del words[words.index("--import") : words.index("--import") + 2]
    command.make_parser(context).parse_args(words)


def test_layers_in_the_docs_are_those_that_are_checked():
    listed = (ROOT / "docs/architecture.md").read_text()
    for layer in (ROOT / "src/anydepth").iterdir():
        if layer.is_dir() and layer.name != "__pycache__":
            assert f"`{layer.name}`" in listed


def test_versions_agree():
    import anydepth

    for path in (
        "pyproject.toml",
        "papers/pyproject.toml",
        "CITATION.cff",
        "docs/citing.md",
        "docs/getting-started.md",
    ):
        assert anydepth.__version__ in (ROOT / path).read_text(), path
