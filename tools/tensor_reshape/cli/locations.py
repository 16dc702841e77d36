"""Where an array is: a file, a member of one, or a pipe, as the command line names it.

`FILE.npz:NAME` and `FILE.safetensors:NAME` are members; every other colon belongs to the name of a file.
"""

import re
from typing import Literal, NamedTuple

Format = Literal["npy", "npz", "safetensors"]

PIPE = "-"
_MEMBER = re.compile(r"(?P<path>.+?\.(?P<format>npz|safetensors))(?::(?P<member>.*))?", re.DOTALL)


class Location(NamedTuple):
    """Where an array is read from or written to.

    Attributes:
        path: of the file; "-" is standard input or output.
        format: by the end of its name; a pipe carries .npy.
        member: which array of the file; empty: the only one, or one of no particular name.
    """

    path: str
    format: Format = "npy"
    member: str = ""

    @property
    def is_pipe(self) -> bool:
        """Whether it is standard input or output."""
        return self.path == PIPE


def read_location(text: str) -> Location:
    """Returns the place that a text names."""
    found = _MEMBER.fullmatch(text)
    if found is None:
        return Location(text)
    kind: Format = "npz" if found["format"] == "npz" else "safetensors"
    return Location(found["path"], kind, found["member"] or "")
