"""The pages that people read, and the code in them."""

import re
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
PAGES = [README, ROOT / "CONTRIBUTING.md", ROOT / "SECURITY.md", *sorted((ROOT / "docs").rglob("*.md"))]
_BLOCK = re.compile(r"^```(\S*)[^\n]*\n(.*?)^```$", re.DOTALL | re.MULTILINE)


class Block(NamedTuple):
    """A piece of code in a page.

    Attributes:
        language: what the page says that it is.
        text: the code.
        name: the page and the line.
    """

    language: str
    text: str
    name: str


def find_blocks(language: str) -> list[Block]:
    """Returns all code in this language, of all pages."""
    return [block for page in PAGES for block in read_blocks(page) if block.language == language]


def read_blocks(page: Path) -> list[Block]:
    text = page.read_text()
    return [
        Block(match[1], match[2], f"{page.name}:{text.count(chr(10), 0, match.start()) + 1}")
        for match in _BLOCK.finditer(text)
    ]


def read_prose(page: Path) -> str:
    """Returns the page without its code."""
    return _BLOCK.sub("", page.read_text())
