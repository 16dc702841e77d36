"""What one caller may have, as callers see it."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import grpc
import pytest

from http2 import HEALTH_CHECK
from plain_requests import INFER, INFERRED
from raw_streams import RawStream, begin, open_stream
from remote_refusals import catch_remote, catch_status, describe, read_trailing, send_raw
from server_processes import ServerProcess, run_server
from tensor_reshape.client import AsyncClient, Client, LimitError, Reason
from tensor_reshape.wire.methods import SERVICE

RATE = 5


@pytest.fixture
def strict(serving: str, start_for_file: Callable[..., ServerProcess], sockets: Path) -> ServerProcess:
    """A server that allows each caller one call at a time."""
    listen = ("127.0.0.1:0", f"unix:{sockets / serving}-strict")
    return start_for_file("--serving", serving, "--max-calls-per-caller", "1", listen=listen)


@pytest.fixture
def slow(serving: str, start_for_file: Callable[..., ServerProcess]) -> ServerProcess:
    """A server that allows each caller a few calls in a second."""
    return start_for_file("--serving", serving, "--max-calls-per-caller-per-second", str(RATE))


@contextmanager
def hold_call(address: str) -> Iterator[grpc.Channel]:
    """Has a call under way, as soon as those of the tests before are over; yields its channel."""
    with grpc.insecure_channel(address) as channel, ExitStack() as stack:
        while not _accepts(stack.enter_context(open_stream(channel, begin()))):
            pass
        yield channel


def _accepts(stream: RawStream) -> bool:
    try:
        stream.accept()
    except grpc.RpcError:
        return False
    return True


def infer(client: Client) -> tuple[int, ...]:
    return client.infer_shape([2, 3], [6], special_zero=False).known


def test_a_caller_above_its_quota_is_refused_and_told_why(strict: ServerProcess):
    with hold_call(strict.address) as channel:
        error = catch_remote(lambda: send_raw(channel, "InferShape", INFER))
    assert describe(error)[:2] == (LimitError, Reason.QUOTA_EXCEEDED)


def test_streams_count_as_unary_calls_do(strict: ServerProcess):
    with hold_call(strict.address) as channel, open_stream(channel, begin()) as stream:
        assert describe(stream.refuse())[:2] == (LimitError, Reason.QUOTA_EXCEEDED)


def test_another_caller_is_served_meanwhile(strict: ServerProcess):
    with hold_call(strict.addresses[0]), Client(strict.addresses[1]) as other:
        assert infer(other) == (6,)


def test_callers_with_tokens_have_a_quota_each_from_one_host(serving: str, tmp_path: Path):
    tokens = {name: f"the-token-of-{name}-" * 3 for name in ("ann", "bob")}
    (tmp_path / "tokens").write_text("".join(f"{name}:{token}\n" for name, token in tokens.items()))
    flags = ("--serving", serving, "--max-calls-per-caller", "1", "--token-file", str(tmp_path / "tokens"))
    ann, bob = ((("authorization", f"Bearer {token}"),) for token in tokens.values())
    with (
        run_server(*flags) as server,
        grpc.insecure_channel(server.address) as channel,
        open_stream(channel, begin(), metadata=ann) as stream,
    ):
        stream.accept()
        call: grpc.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(f"/{SERVICE}/InferShape")
        assert call(INFER, metadata=bob) == INFERRED
        assert describe(catch_remote(lambda: call(INFER, metadata=ann)))[1] == Reason.QUOTA_EXCEEDED


def test_health_is_answered_above_the_quota(strict: ServerProcess):
    with hold_call(strict.address) as channel:
        check: grpc.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(HEALTH_CHECK)
        assert check(b"", timeout=60) == b"\x08\x01"  # SERVING


def test_a_call_that_was_refused_has_given_nothing_away(strict: ServerProcess):
    with hold_call(strict.address) as channel:
        for _ in range(3):
            catch_status(lambda: send_raw(channel, "InferShape", INFER))
    with Client(strict.address) as client:  # which asks again where the call is not over yet
        assert infer(client) == (6,)


def test_the_sdk_waits_as_long_as_it_is_told_and_is_answered(slow: ServerProcess):
    with Client(slow.address) as client:
        assert [infer(client) for _ in range(2 * RATE)] == [(6,)] * 2 * RATE


async def test_so_does_the_asyncio_client(slow: ServerProcess):
    async with AsyncClient(slow.address) as client:
        for _ in range(2 * RATE):
            assert (await client.infer_shape([2, 3], [6], special_zero=False)).known == (6,)


def test_stock_clients_are_told_when_to_come_again(slow: ServerProcess):
    with grpc.insecure_channel(slow.address) as channel:
        status = catch_status(lambda: [send_raw(channel, "InferShape", INFER) for _ in range(1000)])
    assert 0 < int(read_trailing(status)["grpc-retry-pushback-ms"]) <= 1000 / RATE
