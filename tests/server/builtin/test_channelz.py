"""What gRPC's core knows of connections is told to those who may ask."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf.message import Message
from grpc_channelz.v1 import channelz_pb2 as messages
from grpc_channelz.v1.channelz_pb2_grpc import ChannelzStub
from grpc_reflection.v1alpha import reflection_pb2

from http2 import REFLECTION
from in_process import ANY_PORT, run_runner
from tensor_reshape.client import Client
from tensor_reshape.rules.errors import ReshapeError
from tensor_reshape.server.builtin import channelz
from tensor_reshape.server.config import Config
from tensor_reshape.server.runner import Runner

SECONDS = 60
TOKEN, OTHER = "a" * 32, "b" * 32
MISSING = 2**62
LOOKUPS = {
    "GetServer": messages.GetServerRequest(server_id=MISSING),
    "GetServerSockets": messages.GetServerSocketsRequest(server_id=MISSING),
    "GetChannel": messages.GetChannelRequest(channel_id=MISSING),
    "GetSubchannel": messages.GetSubchannelRequest(subchannel_id=MISSING),
    "GetSocket": messages.GetSocketRequest(socket_id=MISSING),
}


def build_config(**settings: Any) -> Config:
    return Config(listen=(ANY_PORT,), channelz=True, drain_seconds=0, shutdown_grace_seconds=0, **settings)


@pytest.fixture(scope="module")
def runner() -> Iterator[Runner]:
    with run_runner(build_config()) as runner:
        yield runner


@pytest.fixture
def channel(runner: Runner) -> Iterator[grpc.Channel]:
    with grpc.insecure_channel(runner.addresses[0]) as channel:
        yield channel


def ask(channel: grpc.Channel, name: str, request: Message, token: str | None = None) -> Any:  # noqa: ANN401 - whose messages have no types
    metadata = [] if token is None else [("authorization", f"Bearer {token}")]
    return getattr(ChannelzStub(channel), name)(request, timeout=SECONDS, metadata=metadata)


def count_calls(channel: grpc.Channel) -> int:
    """Returns how many calls have begun on the servers of this process."""
    return sum(server.data.calls_started for server in ask(channel, "GetServers", messages.GetServersRequest()).server)


def find_code(channel: grpc.Channel, name: str, request: Message, token: str | None = None) -> grpc.StatusCode:
    with pytest.raises(grpc.RpcError) as raised:
        ask(channel, name, request, token)
    return raised.value.code()


def test_channelz_reports_the_calls_of_a_server(runner: Runner, channel: grpc.Channel):
    before = count_calls(channel)
    with Client(runner.addresses[0]) as client:
        for _ in range(20):
            client.infer_shape([6], [6], special_zero=False)
    assert count_calls(channel) >= before + 20


def test_channelz_reports_the_connection_of_its_client(channel: grpc.Channel):
    servers = ask(channel, "GetServers", messages.GetServersRequest()).server
    sockets = [  # of all servers that this process has: other tests leave some
        socket.socket_id
        for server in servers
        for socket in ask(
            channel, "GetServerSockets", messages.GetServerSocketsRequest(server_id=server.ref.server_id)
        ).socket_ref
    ]
    found = [ask(channel, "GetSocket", messages.GetSocketRequest(socket_id=socket)).socket for socket in sockets]
    assert any(socket.data.streams_started > socket.data.streams_succeeded for socket in found)


@pytest.mark.parametrize("name", LOOKUPS)
def test_unknown_channelz_id_is_not_found(channel: grpc.Channel, name: str):
    assert find_code(channel, name, LOOKUPS[name]) is grpc.StatusCode.NOT_FOUND


def test_every_channelz_method_responds(channel: grpc.Channel):
    for method in channelz.SERVICE.methods:
        if method.name not in LOOKUPS:
            ask(channel, method.name, getattr(messages, method.input_type.name)())


def test_reflection_lists_channelz(channel: grpc.Channel):
    request = reflection_pb2.ServerReflectionRequest(list_services="").SerializeToString()
    method: grpc.StreamStreamMultiCallable[bytes, bytes] = channel.stream_stream(REFLECTION)
    assert channelz.SERVICE.full_name.encode() in next(method(iter([request]), timeout=SECONDS))


def test_channelz_requires_authentication(tmp_path: Path):
    tokens, permissions = tmp_path / "tokens", tmp_path / "permissions"
    tokens.write_text(f"operator:{TOKEN}\nviewer:{OTHER}")
    permissions.write_text(
        '[callers]\n"token:operator" = ["/grpc.channelz.v1.Channelz/*"]\n'
        '"token:viewer" = ["/tensor_reshape.v1.ReshapeService/*"]'
    )
    config = build_config(token_file=tokens, authorization_file=permissions)
    request = messages.GetServersRequest()
    with run_runner(config) as runner, grpc.insecure_channel(runner.addresses[0]) as channel:
        assert find_code(channel, "GetServers", request) is grpc.StatusCode.UNAUTHENTICATED
        assert find_code(channel, "GetServers", request, OTHER) is grpc.StatusCode.PERMISSION_DENIED
        assert ask(channel, "GetServers", request, TOKEN).server


def test_channelz_is_off_by_default():
    with run_runner(Config(listen=(ANY_PORT,))) as runner, grpc.insecure_channel(runner.addresses[0]) as channel:
        assert find_code(channel, "GetServers", messages.GetServersRequest()) is grpc.StatusCode.UNIMPLEMENTED


def test_malformed_message_is_rejected():
    with pytest.raises(ReshapeError):
        channelz.respond(channelz.SERVICE.methods_by_name["GetServer"], b"\xff")


def test_unreadable_channelz_response_is_a_bug(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("grpc._cython.cygrpc.channelz_get_servers", lambda _: b"no JSON")
    with pytest.raises(RuntimeError, match="Failed to load JSON"):
        channelz.respond(channelz.SERVICE.methods_by_name["GetServers"], b"")
