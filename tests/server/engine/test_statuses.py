"""What a call ends with when it does not end with a response."""

import grpc
import numpy as np
import pytest

from tensor_reshape.server.engine.heads import CallHead
from tensor_reshape.server.engine.statuses import INTERNAL_ERROR, choose_end, find_good_status


def test_where_memory_ran_out_the_call_may_be_made_again():
    with pytest.raises(MemoryError) as raised:
        np.empty(2**60, np.uint8)
    status = choose_end(raised.value, CallHead("/a/B", ())).status
    assert (status.code, "memory" in status.details) == (grpc.StatusCode.RESOURCE_EXHAUSTED, True)
    assert any(key == "grpc-status-details-bin" for key, _ in status.trailing_metadata)


def test_of_a_bug_the_caller_is_told_nothing():
    status = choose_end(RuntimeError("secret"), CallHead("/a/B", ())).status
    assert (status.code, status.details) == (grpc.StatusCode.INTERNAL, INTERNAL_ERROR)


def test_what_a_call_tells_besides_is_told_with_every_end():
    head = CallHead("/a/B", ())
    head.trailing = (("told", "besides"),)
    good = find_good_status(head)
    assert good is not None
    assert (good.code, good.trailing_metadata) == (grpc.StatusCode.OK, head.trailing)
    assert head.trailing[0] in choose_end(RuntimeError("secret"), head).status.trailing_metadata


def test_a_good_end_without_more_needs_no_status():
    assert (find_good_status(None), find_good_status(CallHead("/a/B", ()))) == (None, None)
