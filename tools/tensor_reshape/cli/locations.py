"""Parses the location of an array on the command line: a file, a member of a file, or a pipe.

A text of the form `FILE.npz:NAME` or `FILE.safetensors:NAME` is the location of a member. Any other colon is a part of
the file name.
"""

import re
from typing import Literal, NamedTuple

Format = Literal["npy", "npz", "safetensors"]

PIPE = "-"
_MEMBER = re.compile(r"(?P<path>.+?\.(?P<format>npz|safetensors))(?::(?P<member>.*))?", re.DOTALL)


class Location(NamedTuple):
    """The location of an array on the command line.

    Attributes:
        path: the path of the file. The path "-" means standard input or output.
        format: the file format, which the file extension selects. In pipes, the format is always .npy.
        member: the name of the array in the file. The text is empty if the user has not named an array.
    """

    path: str
    format: Format = "npy"
    member: str = ""

    @property
    def is_pipe(self) -> bool:
        """Whether the location is standard input or output."""
        return self.path == PIPE


def read_location(text: str) -> Location:
    """Returns the location that a command line argument names."""
    found = _MEMBER.fullmatch(text)
    if found is None:
        return Location(text)
    kind: Format = "npz" if found["format"] == "npz" else "safetensors"
    return Location(found["path"], kind, found["member"] or "")
