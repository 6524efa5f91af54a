"""Tables as people read them: plain text for terminals, HTML for notebooks."""

from collections.abc import Sequence
from html import escape

Rows = Sequence[Sequence[str]]


def text_table(head: Sequence[str], rows: Rows, left: int = 1) -> str:
    """Columns two blanks apart, the first `left` of them to the left, the others to the right."""
    lines = [tuple(head), *map(tuple, rows)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(head))]

    def laid(line: Sequence[str]) -> str:
        cells = (c.ljust(w) if i < left else c.rjust(w) for i, (c, w) in enumerate(zip(line, widths, strict=True)))
        return "  ".join(cells).rstrip()

    return "\n".join(map(laid, lines))


def html_table(head: Sequence[str], rows: Rows, above: str = "", below: str = "") -> str:
    """The same for a notebook, between two lines of text."""
    top = "".join(f"<th>{escape(cell)}</th>" for cell in head)
    body = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in rows)
    before, after = (f"<p>{escape(text)}</p>" if text else "" for text in (above, below))
    return f"{before}<table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>{after}"
