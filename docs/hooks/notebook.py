"""A tutorial is a Python script in cells (`# %%`, `# %% [markdown]`). It is run, and becomes a page and a notebook."""

import ast
import base64
import contextlib
import io
import json
import re
import sys
import traceback
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

CELL = re.compile(r"^# %%[ ]*(\[markdown\])?.*$", re.MULTILINE)


@dataclass
class Cell:
    """Markdown text, or code with what it printed and drew."""

    kind: str
    source: str
    text: str = ""
    figures: list[bytes] = field(default_factory=list)


def cells_of(script: str) -> list[Cell]:
    """The cells of a script; text before the first marker is left out."""
    marks = list(CELL.finditer(script))
    ends = [mark.start() for mark in marks[1:]] + [len(script)]
    found = [_cell(bool(mark[1]), script[mark.end() : end]) for mark, end in zip(marks, ends, strict=True)]
    return [cell for cell in found if cell.source]


def _cell(is_text: bool, body: str) -> Cell:
    if not is_text:
        return Cell("code", body.strip("\n"))
    return Cell("markdown", "\n".join(re.sub(r"^# ?", "", line) for line in body.strip("\n").split("\n")))


def run(script: Path) -> list[Cell]:
    """Run the code cells one after another in one namespace, and keep what they print and draw.

    What a cell ends with is printed too, unless the cell draws.
    """
    import matplotlib

    matplotlib.use("Agg")
    names: dict[str, Any] = {"__name__": "__main__", "__file__": str(script)}
    cells = cells_of(script.read_text())
    for number, cell in enumerate(cells):
        if cell.kind == "code":
            _run_cell(cell, names, f"{script.name}, cell {number + 1}")
    return cells


def _run_cell(cell: Cell, names: dict[str, Any], where: str) -> None:
    printed = io.StringIO()
    tree = ast.parse(cell.source, where)
    ends = tree.body[-1] if tree.body else None
    last = ends if isinstance(ends, ast.Expr) else None
    if last is not None:
        tree.body.pop()
    with contextlib.redirect_stdout(printed):
        exec(compile(tree, where, "exec"), names)
        value = None if last is None else eval(compile(ast.Expression(last.value), where, "eval"), names)
        cell.figures = _drawn()
        if value is not None and not cell.figures:
            print(repr(value))
    cell.text = printed.getvalue()


def _drawn() -> list[bytes]:
    from matplotlib import pyplot

    found = []
    for number in pyplot.get_fignums():
        image = io.BytesIO()
        pyplot.figure(number).savefig(image, format="png", dpi=110, bbox_inches="tight", facecolor="white")
        found.append(image.getvalue())
    pyplot.close("all")
    return found


def page(cells: list[Cell], name: str) -> tuple[str, dict[str, bytes]]:
    """The tutorial as Markdown, and its figures by file name."""
    parts, images = [], {}
    for cell in cells:
        parts.append(cell.source if cell.kind == "markdown" else f"```python\n{cell.source}\n```")
        if cell.text:
            parts.append(f'<div class="output" markdown>\n\n```text\n{cell.text.rstrip()}\n```\n\n</div>')
        for image in cell.figures:
            images[f"{name}-{len(images) + 1}.png"] = image
            parts.append(f"![Figure made by the code above]({name}-{len(images)}.png)")
    parts.append(f"[Download as a notebook]({name}.ipynb){{ .md-button }}")
    return "\n\n".join(parts) + "\n", images


def notebook(cells: list[Cell]) -> str:
    """The tutorial as a Jupyter notebook with its outputs."""
    written, runs = [], 0
    for number, cell in enumerate(cells):
        base = {"id": f"cell-{number}", "metadata": {}, "source": cell.source.splitlines(keepends=True)}
        if cell.kind == "markdown":
            written.append(base | {"cell_type": "markdown"})
        else:
            runs += 1
            written.append(base | {"cell_type": "code", "execution_count": runs, "outputs": _outputs(cell)})
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    whole = {"cells": written, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(whole, indent=1)


def _outputs(cell: Cell) -> list[dict[str, Any]]:
    texts = [{"output_type": "stream", "name": "stdout", "text": cell.text.splitlines(keepends=True)}]
    drawn = [{"image/png": base64.b64encode(image).decode()} for image in cell.figures]
    shown = [{"output_type": "display_data", "metadata": {}, "data": data} for data in drawn]
    return (texts if cell.text else []) + shown


def main() -> None:
    """`python notebook.py SCRIPT FOLDER`: run a tutorial and write its page, figures and notebook."""
    script, folder = Path(sys.argv[1]), Path(sys.argv[2])
    try:
        cells = run(script)
    except Exception:
        traceback.print_exc()
        raise SystemExit(f"{script} does not run") from None
    folder.mkdir(parents=True, exist_ok=True)
    text, images = page(cells, script.stem)
    for name, image in images.items():
        (folder / name).write_bytes(image)
    (folder / f"{script.stem}.ipynb").write_text(notebook(cells))
    (folder / f"{script.stem}.md").write_text(text)


if __name__ == "__main__":
    main()
