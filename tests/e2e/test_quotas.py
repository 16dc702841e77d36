"""Quotas as callers see them, also behind a trusted proxy. The tests themselves act as the proxy."""

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import grpc
import pytest

from both_clients import CLIENTS, open_client
from http2 import HEALTH_CHECK
from plain_requests import (
    INFER,
    INFERRED,
    RawStream,
    begin,
    catch_remote,
    catch_status,
    describe,
    open_stream,
    read_trailing,
    send_raw,
)
from server_processes import ServerProcess, run_server
from tensor_reshape.client import Client, LimitError, Reason
from tensor_reshape.wire.methods import INFER_SHAPE

RATE = 5


@pytest.fixture
def strict(start_for_file: Callable[..., ServerProcess], sockets: Path) -> ServerProcess:
    """A server that allows each caller one running call."""
    listen = ("127.0.0.1:0", f"unix:{sockets}/strict")
    return start_for_file("--max-calls-per-caller", "1", listen=listen)


@pytest.fixture
def slow(start_for_file: Callable[..., ServerProcess]) -> ServerProcess:
    """A server that allows each caller a few calls per second."""
    return start_for_file("--max-calls-per-caller-per-second", str(RATE))


@contextmanager
def hold_call(address: str) -> Iterator[grpc.Channel]:
    """Starts a call when the calls of earlier tests are over, and yields its channel while the call runs."""
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


def test_calls_and_streams_above_the_quota_are_rejected(strict: ServerProcess):
    with hold_call(strict.address) as channel:
        for _ in range(3):
            error = catch_remote(lambda: send_raw(channel, "InferShape", INFER))
            assert describe(error)[:2] == (LimitError, Reason.QUOTA_EXCEEDED)
        with open_stream(channel, begin()) as stream:
            assert describe(stream.reject())[:2] == (LimitError, Reason.QUOTA_EXCEEDED)
        assert send_raw(channel, HEALTH_CHECK, b"") == b"\x08\x01"  # SERVING
        with Client(strict.addresses[1]) as other:  # another caller, because it uses the unix socket
            assert other.infer_shape([2, 3], [6], special_zero=False) == (6,)
    with Client(strict.address) as client:  # the SDK retries if the call is not over yet
        assert client.infer_shape([2, 3], [6], special_zero=False) == (6,)


@pytest.mark.skipif(sys.platform != "linux", reason="needs ports that processes share")
def test_callers_have_their_quota_in_each_worker():
    own = [("grpc.use_local_subchannel_pool", 1)]  # otherwise channels would share a connection
    with run_server("--workers", "2", "--max-calls-per-caller", "1") as server, ExitStack() as stack:
        # So many connections that both workers have some.
        channels = [stack.enter_context(grpc.insecure_channel(server.address, options=own)) for _ in range(24)]
        streams = [stack.enter_context(open_stream(channel, begin())) for channel in channels]
        assert [_accepts(stream) for stream in streams].count(True) == 2


def test_each_token_identity_has_its_own_quota(tmp_path: Path):
    tokens = {name: f"the-token-of-{name}-" * 3 for name in ("ann", "bob")}
    (tmp_path / "tokens").write_text("".join(f"{name}:{token}\n" for name, token in tokens.items()))
    flags = ("--max-calls-per-caller", "1", "--token-file", str(tmp_path / "tokens"))
    ann, bob = ((("authorization", f"Bearer {token}"),) for token in tokens.values())
    with (
        run_server(*flags) as server,
        grpc.insecure_channel(server.address) as channel,
        open_stream(channel, begin(), metadata=ann) as stream,
    ):
        stream.accept()
        assert send_raw(channel, "InferShape", INFER, metadata=bob) == INFERRED
        rejected = catch_remote(lambda: send_raw(channel, "InferShape", INFER, metadata=ann))
        assert describe(rejected)[1] == Reason.QUOTA_EXCEEDED


@pytest.mark.parametrize("kind", CLIENTS)
def test_sdk_waits_for_the_retry_delay_of_a_quota_rejection(slow: ServerProcess, kind: str):
    with open_client(kind, slow.address) as client:
        assert [client.infer_shape([2, 3], [6]).known for _ in range(2 * RATE)] == [(6,)] * 2 * RATE


def test_quota_rejection_sends_grpc_retry_pushback_metadata(slow: ServerProcess):
    with grpc.insecure_channel(slow.address) as channel:
        status = catch_status(lambda: [send_raw(channel, "InferShape", INFER) for _ in range(1000)])
    assert 0 < int(read_trailing(status)["grpc-retry-pushback-ms"]) <= 1000 / RATE


SLOW = ("--max-calls-per-caller-per-second", "0.001")
"""Allows each caller one call in about 17 minutes."""


@pytest.fixture(scope="module")
def proxied(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server that trusts 127.0.0.1 and the clients of its unix socket as proxies."""
    listen = ("127.0.0.1:0", f"unix:{tmp_path_factory.mktemp('s')}/s", "[::1]:0")
    proxies = ("--trusted-proxy", "127.0.0.1", "--trusted-proxy", "unix:")
    with run_server(*SLOW, *proxies, listen=listen) as server:
        yield server


def is_admitted(address: str, *forwarded: str) -> bool:
    """Makes a call with these forwarded addresses. Returns whether it is admitted."""
    metadata = tuple(("x-forwarded-for", value) for value in forwarded)
    with grpc.insecure_channel(address) as channel:
        method: grpc.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(INFER_SHAPE.path)
        code = method.future(INFER, timeout=60, metadata=metadata).code()
    assert code in {grpc.StatusCode.OK, grpc.StatusCode.RESOURCE_EXHAUSTED}
    return code is grpc.StatusCode.OK


@pytest.mark.parametrize("index", [0, 1], ids=["tcp", "unix"])
def test_clients_behind_a_proxy_have_separate_quotas(proxied: ServerProcess, index: int):
    one, other = f"198.51.100.{2 * index}", f"198.51.100.{2 * index + 1}"
    address = proxied.addresses[index]
    assert [is_admitted(address, caller) for caller in (one, other, one)] == [True, True, False]


def test_client_cannot_forge_its_address_through_a_proxy(proxied: ServerProcess):
    address = proxied.addresses[0]
    admitted = [is_admitted(address, f"203.0.113.{number}", "198.51.100.99") for number in range(2)]
    assert admitted == [True, False]


def test_forwarded_header_from_untrusted_addresses_is_ignored(proxied: ServerProcess):
    admitted = [is_admitted(proxied.addresses[2], f"192.0.2.{number}") for number in range(2)]
    assert admitted == [True, False]
