"""Options that a client rejects before it connects."""

import copy
import json
import math
import pickle
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import grpc
import numpy as np
import pytest

from both_clients import CLIENTS, open_client
from server_processes import ServerProcess
from tensor_reshape.client import Client, LimitError, Reason
from tensor_reshape.client.arguments import DEFAULT_TIMEOUT_SECONDS
from tensor_reshape.client.contexts import TRACE_KEY
from tensor_reshape.client.options import Endpoint, build_channel_options, check_settings, check_size, choose_timeout
from tensor_reshape.client.retries import PATIENCE_SECONDS
from tensor_reshape.rules.limits import MAX_HEADER_BYTES, MAX_MESSAGE_BYTES
from tensor_reshape.server.config import Config
from tensor_reshape.server.grpc import options as server_options
from tensor_reshape.wire.reshapes import DEFAULT_CHUNK_BYTES

NOBODY = "127.0.0.1:1"
TLS = grpc.ssl_channel_credentials()


@pytest.mark.parametrize("seconds", [0, -1, -math.inf, math.nan])
def test_client_timeout_must_be_above_zero(seconds: float):
    with pytest.raises(ValueError, match="timeout"):
        choose_timeout(seconds)


@pytest.mark.parametrize("seconds", ["5", None, [5]], ids=repr)
def test_client_timeout_must_be_a_number(seconds: float):
    with pytest.raises(TypeError, match=r"write seconds as a number, or math\.inf for no timeout"):
        choose_timeout(seconds)


@pytest.mark.parametrize(("timeout", "seconds"), [(None, 30), (0.5, 0.5), (math.inf, None), (1e300, None)])
def test_timeout_of_a_call_overrides_the_client(timeout: float | None, seconds: float | None):
    assert Endpoint("localhost:1", None, (), 30).choose_timeout(timeout) == seconds


@pytest.mark.parametrize("field", ["chunk_bytes", "inline_max_bytes"])
@pytest.mark.parametrize("size", ["2MiB", 1.5, None], ids=repr)
def test_client_size_options_must_be_integers(field: str, size: object):
    fields: dict[str, Any] = {field: size}
    with pytest.raises(TypeError, match=f"^{field} is .*: write a whole number"):
        Client(NOBODY, **fields)


@pytest.mark.parametrize("size", [0, 2**40])
def test_chunk_bytes_must_fit_into_a_message(size: int):
    with pytest.raises(ValueError, match=f"chunk_bytes is {size}; it must be from 1 to"):
        Client(NOBODY, chunk_bytes=size)


@pytest.mark.parametrize("credentials", [True, "ca.pem"], ids=repr)
def test_client_credentials_must_be_grpc_channel_credentials(credentials: grpc.ChannelCredentials):
    with pytest.raises(TypeError, match=r"write credentials=grpc\.ssl_channel_credentials\(\) for TLS"):
        Client(NOBODY, credentials=credentials)


def test_client_keepalive_and_dns_intervals_are_consistent():
    options = dict(build_channel_options("localhost:1", avoid_unhealthy=True))
    silent, host, server, lookup = (
        int(options[f"grpc.{name}_ms"]) / 1000
        for name in ("keepalive_time", "keepalive_timeout", "http2.ping_timeout", "dns_min_time_between_resolutions")
    )
    # A client detects a hanging or disconnected server while the call still has time for another attempt.
    assert host < server < silent + server < DEFAULT_TIMEOUT_SECONDS
    assert 2 * lookup < PATIENCE_SECONDS  # so the client resolves an address again while a call waits
    allowed = dict(server_options.build_options(Config(), 1, shares=False))
    assert silent * 1000 >= 2 * allowed["grpc.http2.min_ping_interval_without_data_ms"]


def test_client_flow_control_window_is_fixed():
    options = dict(build_channel_options("localhost:1", avoid_unhealthy=True))
    assert options["grpc.http2.bdp_probe"] == 0
    assert DEFAULT_CHUNK_BYTES <= int(options["grpc.http2.lookahead_bytes"]) <= 16 * DEFAULT_CHUNK_BYTES


HEALTH: dict[str, object] = {"healthCheckConfig": {"serviceName": "tensor_reshape.v1.ReshapeService"}}
ROBIN: dict[str, object] = {"loadBalancingConfig": [{"round_robin": {}}]}
CHANNEL = {
    "grpc.initial_reconnect_backoff_ms": 100,
    "grpc.max_reconnect_backoff_ms": 300,
    "grpc.dns_min_time_between_resolutions_ms": 2_000,
    "grpc.keepalive_time_ms": 10_000,
    "grpc.keepalive_timeout_ms": 8_000,
    "grpc.http2.ping_timeout_ms": 15_000,
    "grpc.http2.max_pings_without_data": 0,
    "grpc.http2.lookahead_bytes": 16 * 2**20,
    "grpc.http2.bdp_probe": 0,
    "grpc.max_send_message_length": -1,
    "grpc.max_receive_message_length": -1,
}


@pytest.mark.parametrize(("target", "local"), [("localhost:1", True), ("unix:/a", True), ("example.com:1", False)])
def test_channel_has_these_options_and_no_proxy_for_this_machine(target: str, local: bool):
    for avoids in (True, False):
        options = dict(build_channel_options(target, avoid_unhealthy=avoids))
        assert json.loads(str(options.pop("grpc.service_config"))) == ROBIN | (HEALTH if avoids else {})
        assert options == CHANNEL | ({"grpc.enable_http_proxy": 0} if local else {})


@pytest.mark.parametrize(
    "own", [[], [("tenant", "a")], [(TRACE_KEY, "own")], [("tenant", "a"), (TRACE_KEY, "own")]], ids=str
)
def test_call_sends_the_current_trace_unless_its_metadata_have_one(own: list[tuple[str, str]]):
    endpoint = Endpoint(NOBODY, None, (), 30)
    assert endpoint.start_call(None, {"metadata": own}).metadata == tuple(own)
    endpoint.read_trace = lambda: ((TRACE_KEY, "current"),)
    added = [] if (TRACE_KEY, "own") in own else [(TRACE_KEY, "current")]
    assert endpoint.start_call(None, {"metadata": own}).metadata == (*own, *added)
    assert endpoint.start_call(None, {}).metadata == ((TRACE_KEY, "current"),)


def test_longest_timeout_and_largest_chunk_are_accepted():
    assert [choose_timeout(seconds) for seconds in (10**9, 10**9 + 1)] == [10**9, None]
    most = MAX_MESSAGE_BYTES - MAX_HEADER_BYTES
    assert [check_size(size, "chunk_bytes", most) for size in (1, most)] == [1, most]
    assert [check_size(size, "inline_max_bytes") for size in (-1, 0, 2**60)] == [-1, 0, 2**60]
    for size in (0, most + 1):
        with pytest.raises(ValueError, match=f"^chunk_bytes is {size}; it must be from 1 to {most}$"):
            Client(NOBODY, chunk_bytes=size)
    Client(NOBODY, chunk_bytes=most).close()


def test_channel_option_of_the_caller_replaces_the_default():
    options = list(build_channel_options("localhost:1", [("grpc.keepalive_time_ms", 7)], avoid_unhealthy=True))
    assert [value for name, value in options if name == "grpc.keepalive_time_ms"] == [7]


@pytest.mark.parametrize(
    "pair", [("name", 1.5), ("name", None), (b"name", 1), ("name", np.int32(1)), ("name", object())]
)
def test_channel_option_with_an_unsupported_value_type_is_rejected(pair: tuple[Any, Any]):
    with pytest.raises(TypeError, match="a channel option must be"):
        check_settings([pair], None, ())


def test_channel_option_value_may_be_int_str_or_bytes():
    options = tuple(("name", value) for value in (1, -1, True, "text", b"bytes"))
    assert check_settings(iter(options), None, ()).options == options  # type: ignore[arg-type] # an iterator


def test_compression_option_must_be_a_grpc_compression():
    assert check_settings((), grpc.Compression.Gzip, ()).compression is grpc.Compression.Gzip
    with pytest.raises(TypeError, match="compression"):
        check_settings((), "gzip", ())


def test_channel_options_of_the_caller_take_effect(kind: str, server: ServerProcess):
    options = [("grpc.max_receive_message_length", 100)]
    with open_client(kind, server.address, options=options) as client, pytest.raises(LimitError) as caught:
        client.reshape(np.zeros(64, np.float32), [-1])
    assert caught.value.reason is Reason.MESSAGE_TOO_LARGE


@pytest.mark.parametrize("kind", CLIENTS)
@pytest.mark.parametrize(("credentials", "tls"), [(None, ""), (TLS, ", TLS")])
def test_client_repr_has_no_secrets(kind: str, credentials: grpc.ChannelCredentials | None, tls: str):
    metadata = [("authorization", "Bearer secret")]
    with open_client(kind, NOBODY, credentials=credentials, metadata=metadata) as client:
        assert repr(client._client) == f"<{kind} of 127.0.0.1:1{tls}>"
    assert repr(client._client) == f"<{kind} of 127.0.0.1:1{tls}, closed>"


@pytest.mark.parametrize("kind", CLIENTS)
def test_pickling_a_client_raises_an_error_with_advice(kind: str):
    takes: list[Callable[[object], object]] = [pickle.dumps, copy.copy, copy.deepcopy]
    with open_client(kind, NOBODY) as client:
        for take in takes:
            with pytest.raises(TypeError, match=rf"{kind} .* create one in each process"):
                take(client._client)


@pytest.mark.parametrize("kind", CLIENTS)
def test_error_of_a_closed_client_suggests_the_with_block(kind: str):
    text = r"^the client of 127\.0\.0\.1:1 is closed: make calls inside its `with` block"
    with open_client(kind, NOBODY) as client:
        for _ in range(2):
            client._call("close")
        with pytest.raises(ValueError, match=text):
            client.infer_shape([1], [1])


USE_AFTER_FORK = """
import asyncio, os, sys
from tensor_reshape.client import AsyncClient, Client

def attempt(use):
    try:
        print(use())
    except RuntimeError as error:
        print(error)

with Client(sys.argv[1]) as client:
    client.infer_shape([6], [6], special_zero=False)
    if os.fork() == 0:
        attempt(lambda: client.infer_shape([6], [6], special_zero=False))
        attempt(lambda: client.submit(client.infer_shape, [6], [6], special_zero=False))
        attempt(client.wait_until_ready)
        client.close()  # which must not wait for threads that are the parent's
        sys.stdout.flush()
        os._exit(0)
    os.wait()
    print(client.infer_shape([6], [6], special_zero=False))
"""


def test_using_a_client_after_fork_raises_an_error(server: ServerProcess):
    command = [sys.executable, "-c", USE_AFTER_FORK, server.address]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    said = f"the client of {server.address} was created before this process forked: create one in each process"
    assert done.stdout.splitlines() == [said] * 3 + ["[6]"]
