"""The pages for readers, and the code blocks in them."""

import re
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
PAGES = [README, ROOT / "CONTRIBUTING.md", ROOT / "SECURITY.md", *sorted((ROOT / "docs").rglob("*.md"))]
_BLOCK = re.compile(r"^```(\S*)[^\n]*\n(.*?)^```$", re.DOTALL | re.MULTILINE)


class Block(NamedTuple):
    """A code block in a page.

    Attributes:
        language: the language in the first line of the block.
        text: the code.
        name: the page and the line of the block.
    """

    language: str
    text: str
    name: str


def find_blocks(language: str) -> list[Block]:
    """Returns all blocks in this language on all pages."""
    return [block for page in PAGES for block in read_blocks(page) if block.language == language]


def read_blocks(page: Path) -> list[Block]:
    text = page.read_text()
    return [
        Block(match[1], match[2], f"{page.name}:{text.count(chr(10), 0, match.start()) + 1}")
        for match in _BLOCK.finditer(text)
    ]


def read_prose(page: Path) -> str:
    """Returns the page without its code blocks."""
    return _BLOCK.sub("", page.read_text())
