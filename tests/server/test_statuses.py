"""What a call ends with when it does not end with a response."""

import grpc
import numpy as np
import pytest

from tensor_reshape.server.calls.statuses import INTERNAL_ERROR, choose_status


def test_where_memory_ran_out_the_call_may_be_made_again():
    with pytest.raises(MemoryError) as raised:
        np.empty(2**60, np.uint8)
    status = choose_status(raised.value, "method")
    assert (status.code, "memory" in status.details) == (grpc.StatusCode.RESOURCE_EXHAUSTED, True)
    assert any(key == "grpc-status-details-bin" for key, _ in status.trailing_metadata)


def test_of_a_bug_the_caller_is_told_nothing():
    status = choose_status(RuntimeError("secret"), "method")
    assert (status.code, status.details) == (grpc.StatusCode.INTERNAL, INTERNAL_ERROR)
