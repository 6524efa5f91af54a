"""A tiny builder of HTML: text is escaped unless it was built here."""

import re
from base64 import b64encode
from collections.abc import Iterable, Mapping, Sequence
from html import escape

from anydepth.report.style import CSS

NONE = "\u2013"
"""Shown where there is no value."""
VOID = frozenset({"img", "br", "meta"})


class Markup(str):
    """Text that is HTML already."""

    __slots__ = ()


def tag(name: str, /, *children: "str | None", **attributes: str | None) -> Markup:
    """An element; a trailing underscore of an attribute's name is dropped, one that is None is left out."""
    given = (f' {key.rstrip("_")}="{escape(value)}"' for key, value in attributes.items() if value is not None)
    opening = f"<{name}{''.join(given)}>"
    return Markup(opening if name in VOID else f"{opening}{join(children)}</{name}>")


def join(children: "Iterable[str | None]", between: str = "") -> Markup:
    """Children one after another; what is None is left out."""
    return Markup(between.join(child if isinstance(child, Markup) else escape(child) for child in children if child))


def table(head: Sequence[str], rows: Iterable[Sequence[str]], class_: str | None = None) -> Markup:
    """A table in a box that scrolls sideways; cells that are a `td` or `th` already stay as they are.

    On a phone its rows become blocks, every cell with the title of its column: lines with the class `stacked`, or tiles
    (`tiled`).
    """
    if class_ and {"stacked", "tiled"} & set(class_.split()):
        titles = [re.sub("<[^>]*>", "", title) for title in head]
        rows = [[_titled(cell, title) for cell, title in zip(row, titles, strict=False)] for row in rows]
    top = tag("tr", *(_cell(title, "th") for title in head)) if any(head) else None
    body = join((tag("tr", *map(_cell, row)) for row in rows), "\n")
    inner = tag("table", tag("thead", top) if top else None, tag("tbody", body), class_=class_)
    return tag("div", inner, class_="scroll")


def _cell(content: str, name: str = "td") -> Markup:
    is_cell = isinstance(content, Markup) and content.startswith(("<td", "<th"))
    return Markup(content) if is_cell else tag(name, content, scope="col" if name == "th" else None)


def _titled(content: str, title: str) -> Markup:
    """A cell that knows the title of its column."""
    return Markup(re.sub("^<(td|th)", rf'<\1 data-title="{escape(title)}"', _cell(content), count=1))


def pairs(values: Mapping[str, str]) -> Markup:
    """Names and values as a table of two columns."""
    return table((), ([tag("th", name, scope="row"), value] for name, value in values.items()), class_="pairs")


def picture(svg: str, text: str, class_: str | None = None, spots: Iterable[Markup] = ()) -> Markup:
    """A drawing that shares no names with the page or another drawing; `text` says what it shows; `spots` lie on it."""
    address = f"data:image/svg+xml;base64,{b64encode(svg.encode()).decode()}"
    return tag("figure", tag("div", tag("img", src=address, alt=text), *spots, class_="drawn"), class_=class_)


def spot(left: float, top: float, text: str, class_: str = "spot") -> Markup:
    """A place on a picture, in per cent, that shows words when it is pointed at, tapped or focused; needs no script."""
    side = "left" if left > 50 else "right"
    place = f"left:{left:.2f}%;top:{top:.2f}%"
    return tag("span", tag("span", text, class_=f"told {side}"), class_=class_, style=place, tabindex="0")


def section(title: str, anchor: str, *children: "str | None") -> Markup:
    return tag("section", tag("h2", title), *children, id=anchor)


def page(title: str, *children: str) -> str:
    """A whole document in one file."""
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("title", title),
        tag("style", Markup(CSS)),
    )
    return f"<!DOCTYPE html>\n{tag('html', head, tag('body', tag('main', join(children, chr(10)))), lang='en')}\n"
