"""Sizes in bytes and their text: `16777216`, `64MiB`, `1 GiB`.

Laws:

- Units are binary and written in full. `16M` and `16MB` are 16,000,000 bytes to some readers and 16,777,216 to others:
  they are refused, with both ways to say it.
- What `format_size` writes, `parse_size` reads as the same number.
"""

import re

UNITS = {"B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}
"""The bytes of each unit, from the smallest."""

# Digits are ASCII's: int() takes others as well, and underscores.
_SIZE = re.compile(r"([0-9]{1,20}) ?(KiB|MiB|GiB|TiB|B|)")
_AMBIGUOUS = re.compile(r"([0-9]{1,20}) ?([kmgt])(i?b?)", re.IGNORECASE)
_FRACTION = re.compile(r"[0-9]+\.[0-9]+ ?[A-Za-z]+")


def parse_size(text: str) -> int:
    """Returns the bytes that a text says.

    Raises:
        ValueError: it is no whole number of a binary unit; the message says what to write instead.
    """
    size = _SIZE.fullmatch(text.strip())
    if size is None:
        message = f"{text!r} is not a size: {_advise(text.strip())}"
        raise ValueError(message)
    return int(size[1]) * UNITS[size[2] or "B"]


def format_size(size: int) -> str:
    """Returns a size in the largest unit of which it is a whole number: `64MiB`, `16448KiB`, `1000`."""
    unit = next((unit for unit in reversed(UNITS) if size and size % UNITS[unit] == 0), "B")
    return str(size) if unit == "B" else f"{size // UNITS[unit]}{unit}"


def round_size(size: int) -> str:
    """Returns a size for people, in the largest unit that it reaches, cut to two digits: `16 MiB`, `16.06 MiB`."""
    unit = next((unit for unit in reversed(UNITS) if size >= UNITS[unit]), "B")
    whole, hundredths = divmod(size * 100 // UNITS[unit], 100)  # cut, not rounded: a limit is never said to be higher
    digits = f".{hundredths:02}".rstrip("0") if hundredths else ""
    return f"{whole}{digits} {unit}"


def _advise(text: str) -> str:
    """Returns what to write instead of a text that is no size."""
    ambiguous = _AMBIGUOUS.fullmatch(text)
    if ambiguous is None:
        also = " (no fractions)" if _FRACTION.fullmatch(text) else ""
        return f"write a whole number of bytes, KiB, MiB, GiB or TiB{also}, such as 64MiB"
    count, letter, rest = int(ambiguous[1]), ambiguous[2].upper(), ambiguous[3].lower()
    unit = f"{letter}iB"
    if rest.startswith("i"):  # 64mib, 64Mi: nothing else can be meant
        return f"write {count}{unit}"
    decimal = count * 1000 ** list(UNITS).index(unit)
    return f"write {count}{unit} ({count * UNITS[unit]} bytes) or {decimal}"
