"""Quotas of callers behind a trusted proxy. The tests themselves act as the proxy."""

from collections.abc import Iterator

import grpc
import pytest

from plain_requests import INFER
from server_processes import ServerProcess, run_server
from tensor_reshape.wire.methods import INFER_SHAPE

SLOW = ("--max-calls-per-caller-per-second", "0.001")
"""Allows each caller one call in about 17 minutes."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
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
        made = method.future(INFER, timeout=60, metadata=metadata)
        code = made.code()
    assert code in {grpc.StatusCode.OK, grpc.StatusCode.RESOURCE_EXHAUSTED}
    return code is grpc.StatusCode.OK


@pytest.mark.parametrize("index", [0, 1], ids=["tcp", "unix"])
def test_clients_behind_a_proxy_have_separate_quotas(server: ServerProcess, index: int):
    one, other = f"198.51.100.{2 * index}", f"198.51.100.{2 * index + 1}"
    address = server.addresses[index]
    assert [is_admitted(address, caller) for caller in (one, other, one)] == [True, True, False]


def test_client_cannot_forge_its_address_through_a_proxy(server: ServerProcess):
    address = server.addresses[0]
    admitted = [is_admitted(address, f"203.0.113.{number}", "198.51.100.99") for number in range(2)]
    assert admitted == [True, False]


def test_forwarded_header_from_untrusted_addresses_is_ignored(server: ServerProcess):
    admitted = [is_admitted(server.addresses[2], f"192.0.2.{number}") for number in range(2)]
    assert admitted == [True, False]
