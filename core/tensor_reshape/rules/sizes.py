"""Reads and writes sizes in bytes as text: `16777216`, `64MiB`, `1 GiB`.

Invariants:

- Units are binary and are written in full, as in `64MiB`. `16M` and `16MB` may mean 16,000,000 or 16,777,216 bytes, so
  they are rejected. The error for `16M` names both sizes.
- If `parse_size` reads the output of `format_size`, it returns the same number.
"""

import re

UNITS = {"B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}
"""The number of bytes of each unit, the smallest unit first."""

# The regular expressions accept only ASCII digits. Python's `int` would also accept other digits and underscores.
_SIZE = re.compile(r"([0-9]{1,20}) ?(KiB|MiB|GiB|TiB|B|)")
_AMBIGUOUS = re.compile(r"([0-9]{1,20}) ?([kmgt])(i?b?)", re.IGNORECASE)
_FRACTION = re.compile(r"[0-9]+\.[0-9]+ ?[A-Za-z]+")


def parse_size(text: str) -> int:
    """Returns the number of bytes that a text such as `64MiB` means.

    Raises:
        ValueError: the text is not a whole number with a binary unit. The error message says what to write instead.
    """
    size = _SIZE.fullmatch(text.strip())
    if size is None:
        raise ValueError(f"{text!r} is not a size: {_advise(text.strip())}")
    return int(size[1]) * UNITS[size[2] or "B"]


def format_size(size: int) -> str:
    """Returns a size as a whole number with the largest possible unit: `64MiB`, `16448KiB`, `1000`."""
    unit = next((unit for unit in reversed(UNITS) if size and size % UNITS[unit] == 0), "B")
    return str(size) if unit == "B" else f"{size // UNITS[unit]}{unit}"


def round_size(size: int) -> str:
    """Returns a size for people to read, with at most two decimal places: `16 MiB`, `16.06 MiB`."""
    unit = next((unit for unit in reversed(UNITS) if size >= UNITS[unit]), "B")
    # After two decimals, further digits are cut off instead of rounded. If a size limit were rounded up, the displayed
    # limit would be higher than the actual limit.
    whole, hundredths = divmod(size * 100 // UNITS[unit], 100)
    digits = f".{hundredths:02}".rstrip("0") if hundredths else ""
    return f"{whole}{digits} {unit}"


def _advise(text: str) -> str:
    """Returns a text that says what to write instead of an invalid size."""
    ambiguous = _AMBIGUOUS.fullmatch(text)
    if ambiguous is None:
        also = " (no fractions)" if _FRACTION.fullmatch(text) else ""
        return f"write a whole number of bytes, KiB, MiB, GiB or TiB{also}, such as 64MiB"
    count, letter, rest = int(ambiguous[1]), ambiguous[2].upper(), ambiguous[3].lower()
    unit = f"{letter}iB"
    if rest.startswith("i"):  # a unit such as mib or Mi can only mean MiB
        return f"write {count}{unit}"
    decimal = count * 1000 ** list(UNITS).index(unit)
    return f"write {count}{unit} ({count * UNITS[unit]} bytes) or {decimal}"
