"""The response of ServerInfo."""

from tensor_reshape.rules.limits import MAX_BATCH_BYTES, MAX_BATCH_ITEMS, MAX_RANK, MAX_TENSOR_BYTES
from tensor_reshape.server.config import Config
from tensor_reshape.server.server_info import describe_server
from tensor_reshape.wire.servers import Feature


def test_server_info_has_limits_and_features():
    told = describe_server(Config(max_message_bytes=4096))
    limits = told.limits
    assert (limits.max_message_bytes, limits.max_output_bytes, limits.max_tensor_bytes) == (
        4096,
        4096,
        MAX_TENSOR_BYTES,
    )
    assert (limits.max_batch_bytes, limits.max_batch_items) == (MAX_BATCH_BYTES, MAX_BATCH_ITEMS)
    assert told.operations["reshape"].max_rank == MAX_RANK
    assert told.features == {Feature.OPEN_INFERENCE, Feature.REFLECTION}
