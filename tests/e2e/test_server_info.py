"""ServerInfo describes a server, and the SDK uses it to explain limits."""

import numpy as np
import pytest

from both_clients import CLIENTS, open_client
from server_processes import ServerProcess
from tensor_reshape.client import Feature, LimitError, Reason
from tensor_reshape.rules.limits import MAX_TENSOR_BYTES

LARGE = np.zeros(2048, np.float32)  # twice the largest message of the small server


@pytest.mark.parametrize("kind", CLIENTS)
def test_server_info_returns_limits_to_sync_and_async_clients(kind: str, small_server: ServerProcess):
    with open_client(kind, small_server.address) as client:
        info = client.server_info()
    assert (info.limits.max_message_bytes, info.limits.max_tensor_bytes) == (4096, MAX_TENSOR_BYTES)
    assert info.operations.keys() == {"static_reshape", "dynamic_reshape", "reshape"}
    assert {Feature.OPEN_INFERENCE, Feature.REFLECTION} <= info.features


@pytest.mark.parametrize("kind", CLIENTS)
def test_message_size_error_suggests_a_stream_or_smaller_chunks(kind: str, small_server: ServerProcess):
    with open_client(kind, small_server.address, chunk_bytes=1024) as client:
        with pytest.raises(LimitError, match='its receiver allows 4 KiB: use transfer="stream"') as caught:
            client.static_reshape(LARGE, [-1])
        assert caught.value.reason is Reason.MESSAGE_TOO_LARGE
        np.testing.assert_array_equal(client.static_reshape(LARGE, [-1], transfer="stream"), LARGE)
    with open_client(kind, small_server.address, chunk_bytes=4096) as client:  # too large with its header
        with pytest.raises(LimitError, match="its receiver allows 4096 bytes: use a client with smaller") as caught:
            client.static_reshape(LARGE, [-1], transfer="stream")
        assert caught.value.reason is Reason.MESSAGE_TOO_LARGE
