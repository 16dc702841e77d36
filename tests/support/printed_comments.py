"""What a program says in its comments that it prints."""

import re
from pathlib import Path

_PRINTED = re.compile(r"^.*(?:print|cout).*(?:#|//) (.*)$", re.MULTILINE)


def read_printed(program: Path) -> list[str]:
    """Returns the words of the comments behind its prints."""
    return " ".join(_PRINTED.findall(program.read_text())).split()
