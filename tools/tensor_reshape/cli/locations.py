"""Parses the location of an array on the command line: a file, a member of a file, or a pipe.

A text of the form `FILE.npz:NAME` or `FILE.safetensors:NAME` is the location of a member. Any other colon is a part of
the file name.
"""

import re
from typing import Literal, NamedTuple

Format = Literal["npy", "npz", "safetensors"]

PIPE = "-"
DEFAULT_MEMBER = "output"
_MEMBER = re.compile(r"(?P<path>.+?\.(?P<format>npz|safetensors))(?::(?P<member>.*))?", re.DOTALL)
_LISTED = 20  # an error message lists at most 20 members, because the archive of a model may have thousands


class FormatError(ValueError):
    """A file is damaged, or has contents that this program does not read. The text of the error says why."""


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


def choose_member(names: list[str], member: str) -> str:
    """Returns the member that the user has named, or the only member.

    Raises:
        FormatError: the member does not exist, or the user has named none of several members. The message lists the
            members of the file.
    """
    if member in names:
        return member
    if not member and len(names) == 1:
        return names[0]
    listed = ", ".join(names[:_LISTED]) + (f" and {len(names) - _LISTED} more" if len(names) > _LISTED else "")
    if not names:
        message = "it contains no array"
    elif member:
        message = f"it has no array {member!r}; it has {listed}"
    else:
        message = f"it has several arrays: add a colon and one of the names {listed}"
    raise FormatError(message)
