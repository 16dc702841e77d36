"""The expected output of a program, which is in its comments."""

import re
from pathlib import Path

_PRINTED = re.compile(r"^.*(?:print|cout).*(?:#|//) (.*)$", re.MULTILINE)


def read_printed(program: Path) -> list[str]:
    """Returns the words of the comments that follow its print statements."""
    return " ".join(_PRINTED.findall(program.read_text())).split()
