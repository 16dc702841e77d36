"""Tables and other pieces of Markdown."""

import re
from collections.abc import Iterable

_CODE = re.compile(r"(`[^`]*`)")
_SPECIAL = re.compile(r"([\\*<\[\]])")


def join_cells(cells: Iterable[str]) -> str:
    """Returns a row of a table."""
    padded = (f" {cell.replace('|', '&#124;')} " if cell else " " for cell in cells)
    return f"|{'|'.join(padded)}|"


def escape(text: str) -> str:
    """Returns the text as Markdown that shows it unchanged; code in backticks stays code."""
    pieces = _CODE.split(text)
    return "".join(piece if piece.startswith("`") else _SPECIAL.sub(r"\\\1", piece) for piece in pieces)


def collapse_lines(text: str) -> str:
    """Returns text in one line."""
    return " ".join(text.split())
