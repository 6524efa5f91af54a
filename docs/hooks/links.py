"""Every link of the built site leads to a page, a file or an anchor of it, and nothing is loaded from elsewhere."""

from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit


class Anchors(HTMLParser):
    """The links of a page, each with its tag, and the places in the page that links can name."""

    def __init__(self, text: str):
        super().__init__()
        self.links: list[tuple[str, str]] = []
        self.places: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for key, value in attrs:
            if key in ("href", "src") and value:
                self.links.append((tag, value))
            elif value and (key == "id" or (key, tag) == ("name", "a")):
                self.places.add(value)


def faults(site: Path) -> list[str]:
    """Links that lead nowhere, one line each."""
    pages = {path.resolve(): Anchors(path.read_text()) for path in site.rglob("*.html")}
    return sorted({fault for path in pages for fault in _of_page(path, pages, site.resolve())})


def _of_page(page: Path, pages: dict[Path, Anchors], site: Path) -> Iterator[str]:
    for tag, link in pages[page].links:
        if fault := _fault(tag, link, page, pages):
            yield f"{page.relative_to(site)}: {link} {fault}"


def _fault(tag: str, link: str, page: Path, pages: dict[Path, Anchors]) -> str | None:
    parts = urlsplit(link)
    if parts.netloc:
        return None if tag == "a" else "is loaded from elsewhere"
    if parts.scheme:  # data:, mailto:
        return None
    target = (page.parent / unquote(parts.path)).resolve() if parts.path else page
    if not target.is_file():
        return "leads to no file"
    places = pages[target].places if target in pages else set()
    is_missing = bool(parts.fragment) and target in pages and unquote(parts.fragment) not in places
    return "leads to no anchor" if is_missing and not parts.fragment.startswith("__") else None
