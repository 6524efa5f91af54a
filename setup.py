"""The page of the package is README.md without what only works beside the source: images and relative links."""

import re
from pathlib import Path

from setuptools import setup


def package_page() -> str:
    text = (Path(__file__).parent / "README.md").read_text(encoding="utf-8")
    text = re.sub(r"!\[[^\]]*\]\((?!https?://)[^)]*\)\n+", "", text)
    return re.sub(r"\[([^\]]+)\]\((?!https?://)[^)]*\)", r"\1", text)


setup(long_description=package_page(), long_description_content_type="text/markdown")
