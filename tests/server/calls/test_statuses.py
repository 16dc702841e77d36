"""The status of a call that ends without a response."""

import numpy as np
import pytest

from tensor_reshape.server.calls.call_info import CallInfo
from tensor_reshape.server.calls.statuses import INTERNAL_ERROR, build_failure, find_good_status


def test_python_memory_error_becomes_a_server_busy_status():
    with pytest.raises(MemoryError) as raised:
        np.empty(2**60, np.uint8)
    status = build_failure(raised.value, CallInfo("/a/B", ())).status
    assert (status.code, "memory" in status.details) == ("RESOURCE_EXHAUSTED", True)
    assert any(key == "grpc-status-details-bin" for key, _ in status.trailing_metadata)


def test_internal_error_status_has_a_constant_message():
    status = build_failure(RuntimeError("secret"), CallInfo("/a/B", ())).status
    assert (status.code, status.details) == ("INTERNAL", INTERNAL_ERROR)


def test_trailing_metadata_of_admission_checks_is_sent_with_every_status():
    info = CallInfo("/a/B", ())
    info.trailing = (("told", "besides"),)
    good = find_good_status(info)
    assert good is not None
    assert (good.code, good.trailing_metadata) == ("OK", info.trailing)
    assert info.trailing[0] in build_failure(RuntimeError("secret"), info).status.trailing_metadata


def test_successful_call_without_trailing_metadata_builds_no_status():
    assert (find_good_status(None), find_good_status(CallInfo("/a/B", ()))) == (None, None)
