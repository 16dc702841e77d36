"""The responses of fakes as bytes. `test_fakes` compares them with those of real servers."""

import pytest

from tensor_reshape.client import InvalidRequestError, LimitError, Reason
from tensor_reshape.rules.limits import MAX_MESSAGE_BYTES
from tensor_reshape.testing.responses import respond
from tensor_reshape.wire.methods import INFER_SHAPE


def test_fake_client_rejects_the_same_requests_as_a_server():
    with pytest.raises(InvalidRequestError) as malformed:
        respond(INFER_SHAPE.path, b"\xff")
    with pytest.raises(LimitError) as large:
        respond(INFER_SHAPE.path, bytes(MAX_MESSAGE_BYTES + 1))
    assert malformed.value.reason is Reason.MESSAGE_MALFORMED
    assert (large.value.reason, large.value.field) == (Reason.MESSAGE_TOO_LARGE, "data")
