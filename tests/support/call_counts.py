"""Measures the work of a function by counting calls, which gives the same number on every machine."""

import sys
from collections.abc import Callable
from types import FrameType

from tensor_reshape.rules.errors import ReshapeError


def count_calls(function: Callable[[], object]) -> int:
    """Returns the number of called functions, including those of the interpreter. A rejection also ends the count."""
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
