"""The fallback server in a process whose `grpc.server` was replaced, as by an instrumentation."""

from collections.abc import Iterator
from pathlib import Path

import grpc
import numpy as np
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha.reflection_pb2 import ServerReflectionRequest, ServerReflectionResponse

from both_clients import CLIENTS, open_client
from plain_requests import INFER, INFERRED, build_reshape
from raw_streams import SIX, begin, chunk, open_stream
from remote_rejections import catch_remote, catch_status, describe, send_raw
from server_processes import STOP_SECONDS, ServerProcess, run_server
from tensor_reshape.client import Client, InvalidRequestError, LimitError, Reason
from tensor_reshape.wire.methods import SERVICE

# The replacement adds nothing, but the server cannot know that.
REPLACEMENT = """
import grpc

original = grpc.server


def server(*arguments, **options):
    return original(*arguments, **options)


grpc.server = server
"""
LARGE = np.arange(1 << 20, dtype=np.float32)
REFLECTION = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo"
CHECK = health_pb2.HealthCheckRequest()
SERVING, NOT_SERVING = health_pb2.HealthCheckResponse.SERVING, health_pb2.HealthCheckResponse.NOT_SERVING


@pytest.fixture(scope="module")
def env(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The environment of a Python process that replaces `grpc.server` before all other imports."""
    folder = tmp_path_factory.mktemp("replacement")
    (folder / "sitecustomize.py").write_text(REPLACEMENT)
    return {"PYTHONPATH": str(folder)}


@pytest.fixture(scope="module")
def fallback(env: dict[str, str], sockets: Path) -> Iterator[ServerProcess]:
    """A server on TCP and on a unix socket. All clients of the socket are one caller."""
    flags, listen = ("--max-message-bytes", "2097152", "--max-calls-per-caller", "2"), f"unix:{sockets}/fallback"
    with run_server(*flags, env=env, listen=("127.0.0.1:0", listen)) as server:
        yield server


@pytest.fixture
def channel(fallback: ServerProcess) -> Iterator[grpc.Channel]:
    with grpc.insecure_channel(fallback.address) as channel:
        yield channel


@pytest.mark.parametrize("workers", ["1", "2"])
def test_fallback_server_logs_the_cause_of_the_fallback(env: dict[str, str], workers: str):
    with run_server("--workers", workers, env=env) as server:
        with Client(server.address) as client:
            assert client.server_info().grpc_api == "public"
        (told,) = server.await_records(1, "serving")
        assert server.stop() == 0
    (warning,) = [one for one in server.records if one["message"] == "using the fallback server (grpcio's public API)"]
    assert told["grpc_api"] == "public"
    assert warning["level"] == "WARNING"
    assert warning["cause"].startswith("grpc.server was replaced")
    assert not [record for record in server.records if record.get("level") == "ERROR"]


@pytest.mark.parametrize("kind", CLIENTS)
@pytest.mark.parametrize("way", ["inline", "stream"])
def test_sync_and_async_clients_reshape_with_the_fallback_server(fallback: ServerProcess, kind: str, way: str):
    array = LARGE[:1000] if way == "inline" else LARGE  # a stream of several messages
    with open_client(kind, fallback.address) as client:
        output = client.reshape(array, [2, -1], special_zero=False, transfer=way)
        np.testing.assert_array_equal(output, array.reshape(2, -1))


def test_generated_stub_gets_responses_from_the_fallback_server(channel: grpc.Channel):
    assert send_raw(channel, "InferShape", INFER) == INFERRED
    with open_stream(channel, begin(), chunk(0, SIX)) as stream:
        assert (stream.accept(), stream.receive(6)) == ((6,), SIX)
        stream.finish()


def test_fallback_server_serves_health_checks_and_watches(channel: grpc.Channel):
    stub = health_pb2_grpc.HealthStub(channel)
    assert stub.Check(CHECK).status == SERVING
    if hasattr(stub, "List"):  # not in older releases of grpcio-health-checking
        assert {*stub.List(health_pb2.HealthListRequest()).statuses} == {"", SERVICE}
    watch = stub.Watch(CHECK)
    assert next(watch).status == SERVING
    watch.cancel()


def test_fallback_server_lists_services_by_reflection(channel: grpc.Channel):
    ask = channel.stream_stream(
        REFLECTION, ServerReflectionRequest.SerializeToString, ServerReflectionResponse.FromString
    )
    (answer,) = ask(iter([ServerReflectionRequest(list_services="")]))
    assert {SERVICE, "grpc.health.v1.Health"} <= {one.name for one in answer.list_services_response.service}


def test_fallback_server_returns_unimplemented_for_an_unknown_method(channel: grpc.Channel):
    assert catch_status(lambda: send_raw(channel, "Nothing", b"")).code() is grpc.StatusCode.UNIMPLEMENTED


@pytest.mark.parametrize(
    ("method", "request_", "kind", "reason"),
    [
        ("StaticReshape", b"\xff", InvalidRequestError, Reason.MESSAGE_MALFORMED),
        ("Reshape", build_reshape(6, 4), InvalidRequestError, Reason.VOLUME_MISMATCH),
        ("Reshape", build_reshape(1 << 21), LimitError, Reason.MESSAGE_TOO_LARGE),
    ],
    ids=str,
)
def test_fallback_server_rejections_have_their_reasons(
    channel: grpc.Channel, method: str, request_: bytes, kind: type, reason: Reason
):
    assert describe(catch_remote(lambda: send_raw(channel, method, request_)))[:2] == (kind, reason)


def test_fallback_server_applies_quotas(fallback: ServerProcess):
    with (
        grpc.insecure_channel(fallback.addresses[1]) as channel,
        open_stream(channel, begin()) as one,
        open_stream(channel, begin()) as other,
    ):
        assert (one.accept(), other.accept()) == ((6,), (6,))
        assert describe(catch_remote(lambda: send_raw(channel, "InferShape", INFER)))[1] == Reason.QUOTA_EXCEEDED
    with Client(fallback.addresses[1]) as client:  # the SDK retries if the other calls are not over yet
        assert client.infer_shape([2, 3], [6], special_zero=False) == (6,)


def test_fallback_server_drains_and_finishes_calls(env: dict[str, str]):
    flags = ("--drain-seconds", "0.2", "--shutdown-grace-seconds", str(2 * STOP_SECONDS))
    with run_server(*flags, env=env) as server, grpc.insecure_channel(server.address) as channel:
        watch = health_pb2_grpc.HealthStub(channel).Watch(CHECK)
        assert next(watch).status == SERVING
        with open_stream(channel, begin()) as stream:
            assert stream.accept() == (6,)
            server.process.terminate()
            assert [answer.status for answer in watch] == [NOT_SERVING]
            stream.send(chunk(0, SIX))
            assert stream.receive(6) == SIX
            stream.finish()
        assert server.wait() == 0
    assert [one["message"] for one in server.records][-2:] == ["stopping", "stopped"]
