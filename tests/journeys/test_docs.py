"""The code in README and guide runs, and every public name is documented somewhere."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    "page",
    [
        "README.md",
        "docs/guide.md",
        "docs/layers.md",
        "docs/training.md",
        "docs/tagging.md",
        "docs/data.md",
        "docs/serve.md",
    ],
)
def test_code_on_the_page_runs(page):
    code = "\n".join(re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(), re.DOTALL))
    assert code
    exec(compile(code, page, "exec"), {})  # noqa: S102


def test_layers_in_the_docs_are_those_that_are_checked():
    listed = (ROOT / "docs/architecture.md").read_text()
    for layer in (ROOT / "src/anydepth").iterdir():
        if layer.is_dir() and layer.name != "__pycache__":
            assert f"`{layer.name}`" in listed
