"""What MkDocs runs: pages from outside of docs/, executed tutorials, a reference that is complete, links that fit."""
# The extra `docs` has mkdocs; checks of types run without it.
# pyright: reportMissingImports=false

import hashlib
import logging
import os
import posixpath
import re
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import links
import public_names
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[2]
CACHE = ROOT / ".cache" / "tutorials"
LOG = logging.getLogger("mkdocs.hooks.build")

OUTSIDE = {
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
    "papers/docs/README.md": "evidence/index.md",
    "papers/README.md": "evidence/package.md",
    "README.md": "index.md",
}
"""Pages of the repository and where the site has them; README.md is only a target of links."""

LINK = re.compile(r"(!?\[(?:[^\[\]]|\[[^\]]*\])*\])\(([^)\s]+)\)")

PLAYGROUND = re.compile(r'^<(iframe|p><a)\b.*"playground\.html".*\n', re.MULTILINE)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the evidence, the pages at the top of the repository, the commands' help and the executed tutorials."""
    _demand_complete_reference()
    for source, place in _outside().items():
        if source != "README.md":
            files.append(_generated(config, place, (ROOT / source).read_text()))
    for image in sorted((ROOT / "papers/evidence").glob("*/figure.*")):
        files.append(_generated(config, f"evidence/{image.parent.name}-{image.name}", image.read_bytes()))
    files.append(_generated(config, "api/commands.md", public_names.commands()))
    for folder in _tutorials():
        for made in sorted(folder.iterdir()):
            files.append(_generated(config, f"tutorials/{made.name}", made.read_bytes()))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Links of the repository become links of the site; what the site does not have is named, not linked."""
    place = page.file.src_uri
    source = {there: here for here, there in _outside().items() if there != "index.md"}.get(place, f"docs/{place}")
    if not (ROOT / "docs/playground.html").exists():  # `make docs` makes it first, `mkdocs build` alone does not
        markdown = PLAYGROUND.sub("", markdown)
    return LINK.sub(lambda found: _link(found[1], found[2], source, place), markdown)


def _demand_complete_reference() -> None:
    """Refuse a public name without a docstring, or without a place in the reference."""
    pages = [path.read_text() for path in (ROOT / "docs/api").glob("*.md")]
    if faults := public_names.faults("\n".join(pages)):
        raise PluginError("the API reference is not complete:\n  " + "\n  ".join(faults))


def on_post_page(output: str, page: Page, config: MkDocsConfig) -> str:
    """The site loads nothing from elsewhere: a shim that the plugin `offline` asks for is one of our own."""
    local = posixpath.relpath("assets/local-search.js", posixpath.dirname(page.file.dest_uri) or ".")
    return output.replace("https://unpkg.com/iframe-worker/shim", local)


def on_post_template(output: str, template_name: str, config: MkDocsConfig) -> str:
    """No page 404: its links work at the root of a server only, and this site is read from a folder too."""
    return "" if template_name == "404.html" else output


def on_post_build(config: MkDocsConfig) -> None:
    """Refuse a site with a link that leads nowhere."""
    if faults := links.faults(Path(config.site_dir)):
        raise PluginError("links of the site lead nowhere:\n  " + "\n  ".join(faults))


def _link(text: str, target: str, source: str, place: str) -> str:
    address, _, anchor = target.partition("#")
    if not address or ":" in address:
        return f"{text}({target})"
    wanted = posixpath.normpath(posixpath.join(posixpath.dirname(source), address))
    there = _outside().get(wanted) or _figure(wanted) or wanted.removeprefix("docs/")
    if not wanted.startswith("docs/") and there == wanted:
        return text.strip("!")[1:-1]
    relative = posixpath.relpath(there, posixpath.dirname(place) or ".")
    return f"{text}({relative}{'#' + anchor if anchor else ''})"


def _figure(path: str) -> str | None:
    found = re.fullmatch(r"papers/evidence/([^/]+)/(figure\.\w+)", path)
    return f"evidence/{found[1]}-{found[2]}" if found else None


def _outside() -> dict[str, str]:
    evidence = {f"papers/docs/{page.name}": f"evidence/{page.name}" for page in (ROOT / "papers/docs").glob("*.md")}
    return evidence | OUTSIDE


def _generated(config: MkDocsConfig, place: str, content: str | bytes) -> File:
    return File.generated(config, place, content=content)


def _tutorials() -> list[Path]:
    """Run every tutorial whose code, or anydepth's, has changed since the last build."""
    scripts = sorted((ROOT / "docs/tutorials").glob("*.py"))
    code = b"".join(path.read_bytes() for path in sorted((ROOT / "src").rglob("*.py")))
    return [_executed(script, code) for script in scripts]


def _executed(script: Path, code: bytes) -> Path:
    runner = Path(__file__).with_name("notebook.py")
    told = hashlib.sha256(code + runner.read_bytes() + script.read_bytes()).hexdigest()[:16]
    folder = CACHE / f"{script.stem}-{told}"
    if (folder / f"{script.stem}.md").exists():
        return folder
    LOG.info("running %s", script.relative_to(ROOT))
    environment = os.environ | {"PYTHONWARNINGS": "ignore", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, str(runner), str(script), str(folder)], env=environment, capture_output=True, text=True
    )
    if done.returncode:
        raise PluginError(f"{script.name} does not run:\n{done.stderr[-3000:]}")
    return folder
