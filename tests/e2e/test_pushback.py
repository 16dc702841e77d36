"""A server with too much to do tells stock clients, which know nothing of its details, when to come again."""

import json
import time
from collections.abc import Iterator

import grpc
import pytest

from in_process import ANY_PORT, run_runner
from raw_streams import begin, open_stream
from remote_refusals import catch_status, read_trailing, send_raw
from tensor_reshape.server.config import Config
from tensor_reshape.wire.methods import SERVICE

INFER = b"\x08\x01\x10\x00\x1a\x02\x12\x00\x22\x00"
CONFIG = {
    "methodConfig": [
        {
            "name": [{"service": SERVICE}],
            "retryPolicy": {
                "maxAttempts": 4,
                "initialBackoff": "0.001s",
                "maxBackoff": "0.001s",
                "backoffMultiplier": 1,
                "retryableStatusCodes": ["RESOURCE_EXHAUSTED"],
            },
        }
    ]
}


@pytest.fixture
def full_address(serving: str) -> Iterator[str]:
    """A server that has as many calls under way as it takes."""
    config = Config(listen=(ANY_PORT,), serving=serving, max_calls=1, drain_seconds=0, grace_seconds=0)
    with (
        run_runner(config) as runner,
        grpc.insecure_channel(runner.addresses[0]) as channel,
        open_stream(channel, begin((0,), (0,))) as stream,
    ):
        stream.accept()
        yield runner.addresses[0]


def test_the_trailers_of_a_busy_server_say_when_to_come_again(full_address: str):
    with grpc.insecure_channel(full_address) as channel:
        trailing = read_trailing(catch_status(lambda: send_raw(channel, "InferShape", INFER)))
    assert trailing["grpc-retry-pushback-ms"] == "200"


def test_a_stock_client_that_retries_comes_again_then(full_address: str):
    start = time.monotonic()
    with grpc.insecure_channel(full_address, options=[("grpc.service_config", json.dumps(CONFIG))]) as channel:
        status = catch_status(lambda: send_raw(channel, "InferShape", INFER))
    assert status.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert time.monotonic() - start >= 3 * 0.2
