"""How much work a function does, counted and not timed: the same on every machine."""

import sys
from collections.abc import Callable
from types import FrameType

from tensor_reshape.rules.errors import ReshapeError


def count_calls(function: Callable[[], object]) -> int:
    """Returns how many functions were called, those of the interpreter itself included; a rejection ends it as well."""
    count = 0

    def notice(_frame: FrameType, event: str, _argument: object) -> None:
        nonlocal count
        count += event in {"call", "c_call"}

    before = sys.getprofile()
    sys.setprofile(notice)
    try:
        function()
    except ReshapeError:
        pass
    finally:
        sys.setprofile(before)
    return count
