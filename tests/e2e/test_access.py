"""Tokens and permissions: who is let in, what each may call, and what is open to everybody."""

import hashlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from both_clients import CALLERS, AnyClient, open_client
from certificates import Certificates, issue_certificates, replace_file
from command_line import run_command
from inference_requests import INFER, build_request
from server_processes import ServerProcess, run_server
from tensor_reshape.client import Client, PermissionDeniedError, Reason, ShapeQuery, UnauthenticatedError
from tensor_reshape.server.auxiliary.foreign_methods import HEALTH_SERVICE
from tensor_reshape.server.oip.messages import SERVICE as INFERENCE_SERVICE
from tensor_reshape.server.oip.messages import find_class, find_path
from tensor_reshape.v1 import reshape_pb2

BATCH, VIEWER, UNKNOWN = "batch-" * 8, "viewer-" * 8, "nobody-" * 8
SERVICE = "/tensor_reshape.v1.ReshapeService"
AUTHORIZATION = f"""
[callers]
"token:batch" = ["*"]
"token:viewer" = ["{SERVICE}/InferShape", "{SERVICE}/BatchInferShape"]
"""
LIST_SERVICES = b"\x3a\x00"  # of reflection: its field 7, empty
VERSIONS = ("v1", "v1alpha")
ROWS = np.arange(6, dtype=np.float32).reshape(2, 3)


@dataclass(frozen=True)
class Guarded:
    """A server that asks for tokens, and what it was started with."""

    server: ServerProcess
    files: Certificates
    directory: Path

    @property
    def credentials(self) -> grpc.ChannelCredentials:
        return grpc.ssl_channel_credentials(self.files.authority.read_bytes())

    def open_client(self, kind: str, **settings: Any) -> AbstractContextManager[AnyClient]:
        return open_client(kind, self.server.address, credentials=self.credentials, **settings)

    def open_channel(self) -> grpc.Channel:
        return grpc.secure_channel(self.server.address, self.credentials)


def call_unary(channel: grpc.Channel, path: str, raw: bytes, *metadata: tuple[str, str]) -> bytes:
    call: grpc.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(path)
    return call(raw, metadata=metadata, timeout=60)


def hash_token(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()


@pytest.fixture(scope="module")
def guarded(serving: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    directory = tmp_path_factory.mktemp("guarded")
    files = issue_certificates(directory)
    (directory / "tokens").write_text(f"batch:{BATCH}\nviewer:sha256:{hash_token(VIEWER)}\n")
    (directory / "authorization.toml").write_text(AUTHORIZATION)
    (directory / "token").write_text(f"{BATCH}\n")
    tls = ["--tls-certificate", str(files.server), "--tls-key", str(files.server_key)]
    access = ["--token-file", str(directory / "tokens"), "--authorization-file", str(directory / "authorization.toml")]
    with run_server(*tls, *access, "--serving", serving, "--log-level", "debug") as server:
        yield Guarded(server, files, directory)
        server.stop()
        log = "".join(map(str, server.records))  # of everything that these tests have sent
        assert all(token not in log and hash_token(token) not in log for token in (BATCH, VIEWER, UNKNOWN))


ASKS: dict[str, Callable[[AnyClient], object]] = {
    "a question": lambda client: client.infer_shape([2, 3], [6]),
    "a batch": lambda client: client.infer_shapes([ShapeQuery(data_shape=[6], shape=[2, 3], special_zero=False)]),
    "an array": lambda client: client.reshape(ROWS, [6]),
    "a stream": lambda client: client.reshape(ROWS, [6], transfer="stream"),
    "a large array": lambda client: client.reshape(np.zeros(2**20, np.uint8), [-1], transfer="inline"),
}


@pytest.mark.parametrize("ask", ASKS)
@pytest.mark.parametrize("kind", CALLERS)
def test_a_caller_with_a_token_is_answered(kind: str, ask: str, guarded: Guarded):
    with guarded.open_client(kind, token=BATCH) as client:
        ASKS[ask](client)


@pytest.mark.parametrize(
    "given", [{}, {"token": UNKNOWN}, {"metadata": [("authorization", f"Basic {BATCH}")]}], ids=str
)
@pytest.mark.parametrize("ask", ASKS)
@pytest.mark.parametrize("kind", CALLERS)
def test_a_caller_without_one_is_refused_and_told_nothing_else(
    kind: str, ask: str, given: dict[str, Any], guarded: Guarded
):
    with guarded.open_client(kind, **given) as client, pytest.raises(UnauthenticatedError) as caught:
        ASKS[ask](client)
    error = caught.value
    assert (error.reason, error.field, error.metadata) == (Reason.UNAUTHENTICATED, "", {})
    assert error.message == "the call shows no token that this server takes"


@pytest.mark.parametrize("ask", ASKS)
@pytest.mark.parametrize("kind", CALLERS)
def test_a_caller_may_call_the_methods_that_it_is_permitted(kind: str, ask: str, guarded: Guarded):
    with guarded.open_client(kind, token=VIEWER) as client:
        if ask in {"a question", "a batch"}:
            ASKS[ask](client)
            return
        with pytest.raises(PermissionDeniedError, match="may not call this method") as caught:
            ASKS[ask](client)
        assert caught.value.reason is Reason.PERMISSION_DENIED


def test_health_is_open_to_everybody(guarded: Guarded):
    with guarded.open_channel() as channel:
        stub = health_pb2_grpc.HealthStub(channel)
        assert stub.Check(health_pb2.HealthCheckRequest()).status == health_pb2.HealthCheckResponse.SERVING
        watch = stub.Watch(health_pb2.HealthCheckRequest())
        assert next(watch).status == health_pb2.HealthCheckResponse.SERVING
        watch.cancel()
        for name in ("ServerLive", "ServerReady"):
            call_unary(channel, find_path(name), b"")


def test_the_inference_protocol_is_closed_as_the_rest_is(guarded: Guarded):
    request = build_request().SerializeToString()
    metadata = find_class("ServerMetadataRequest")().SerializeToString()
    with guarded.open_channel() as channel:
        for path, raw in ((INFER, request), (find_path("ServerMetadata"), metadata)):
            with pytest.raises(grpc.RpcError) as refused:
                call_unary(channel, path, raw)
            assert refused.value.code() is grpc.StatusCode.UNAUTHENTICATED
        assert call_unary(channel, INFER, request, ("authorization", f"Bearer {BATCH}"))


def reflect(channel: grpc.Channel, version: str, *metadata: tuple[str, str]) -> bytes:
    path = f"/grpc.reflection.{version}.ServerReflection/ServerReflectionInfo"
    call: grpc.StreamStreamMultiCallable[bytes, bytes] = channel.stream_stream(path)
    return next(iter(call(iter([LIST_SERVICES]), metadata=metadata, timeout=60)))


@pytest.mark.parametrize("version", VERSIONS)
def test_reflection_is_closed_unless_it_is_asked_for(version: str, guarded: Guarded):
    with guarded.open_channel() as channel:
        with pytest.raises(grpc.RpcError) as refused:
            reflect(channel, version, ("authorization", f"Bearer {BATCH}"))
        assert refused.value.code() is grpc.StatusCode.UNIMPLEMENTED


@pytest.fixture(scope="module")
def local_server(serving: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """One that asks for tokens in plain text, on this machine, and reflects."""
    path = tmp_path_factory.mktemp("local") / "tokens"
    path.write_text(f"batch:{BATCH}")
    with run_server("--token-file", str(path), "--reflection", "--serving", serving) as server:
        yield server


@pytest.mark.parametrize("version", VERSIONS)
def test_reflection_that_is_asked_for_takes_a_token(version: str, local_server: ServerProcess):
    with grpc.insecure_channel(local_server.address) as channel:
        assert SERVICE[1:].encode() in reflect(channel, version, ("authorization", f"Bearer {BATCH}"))
        with pytest.raises(grpc.RpcError) as refused:
            reflect(channel, version)
        assert refused.value.code() is grpc.StatusCode.UNAUTHENTICATED


OPEN = {
    *(f"/grpc.health.v1.Health/{name}" for name in ("Check", "List", "Watch")),
    *map(find_path, ("ServerLive", "ServerReady", "ModelReady")),
}


def list_methods() -> list[str]:
    services = [reshape_pb2.DESCRIPTOR.services_by_name["ReshapeService"], INFERENCE_SERVICE, HEALTH_SERVICE]
    paths = [f"/{service.full_name}/{method.name}" for service in services for method in service.methods]
    return [*paths, *(f"/grpc.reflection.{version}.ServerReflection/ServerReflectionInfo" for version in VERSIONS)]


def find_code(channel: grpc.Channel, path: str, *metadata: tuple[str, str]) -> grpc.StatusCode:
    """Returns how a call ends that sends one empty message: on the wire, a unary call is a stream of one."""
    method: grpc.StreamStreamMultiCallable[bytes, bytes] = channel.stream_stream(path)
    call: Any = method(iter([b""]), metadata=metadata, timeout=60)
    with suppress(grpc.RpcError):
        if path.endswith("/Watch"):
            next(call)  # and no end comes
            call.cancel()
            return grpc.StatusCode.OK
        for _ in call:
            pass
    return grpc.StatusCode[call.code().name]


def test_every_method_but_those_of_health_is_closed(local_server: ServerProcess):
    token = ("authorization", f"Bearer {BATCH}")
    with grpc.insecure_channel(local_server.address) as channel:
        served = {path for path in list_methods() if find_code(channel, path, token).name != "UNIMPLEMENTED"}
        codes = {path: find_code(channel, path).name for path in served}
    assert {path for path, code in codes.items() if code != "UNAUTHENTICATED"} == OPEN
    assert len(served) > 2 * len(OPEN)


@pytest.mark.parametrize("kind", CALLERS)
def test_a_token_travels_in_plain_text_on_this_machine_where_it_is_said(kind: str, local_server: ServerProcess):
    with open_client(kind, local_server.address, token=BATCH, allow_plaintext_token=True) as client:
        assert client.infer_shape([2, 3], [6]) == (6,)


@pytest.mark.parametrize("workers", [1, 2])
def test_tokens_are_rotated_without_a_restart_and_without_a_call_that_fails(serving: str, workers: int, tmp_path: Path):
    old, new = "old-" * 10, "new-" * 10
    tokens, shown = tmp_path / "tokens", tmp_path / "token"
    tokens.write_text(f"web:{old}")
    shown.write_text(old)
    flags = ["--token-file", str(tokens), "--serving", serving, "--workers", str(workers)]
    with (
        run_server(*flags) as server,
        Client(server.address, token_file=shown, allow_plaintext_token=True) as client,
        Client(server.address, token=old, allow_plaintext_token=True) as late,
    ):
        for reloads, lines in enumerate((f"web:{old}\nweb:{new}", f"web:{new}"), 1):
            assert client.infer_shape([6], [6], special_zero=False) == (6,)
            assert late.infer_shape([6], [6], special_zero=False) == (6,)
            replace_file(tokens, lines)
            server.await_records(reloads * workers, "reloaded", what="tokens")
            shown.write_text(new)
        assert client.infer_shape([6], [6], special_zero=False) == (6,)
        with pytest.raises(UnauthenticatedError):
            late.infer_shape([6], [6], special_zero=False)


def test_a_file_of_tokens_that_is_damaged_leaves_the_former_ones(guarded: Guarded):
    path = guarded.directory / "tokens"
    content = path.read_text()
    replace_file(path, f"{content}\nno token")
    (record,) = guarded.server.await_records(1, "not reloaded", what="tokens")
    assert record["reason"].startswith(f"{path}:4 is not NAME:TOKEN")
    with guarded.open_client("Client", token=BATCH) as client:
        assert client.infer_shape([6], [6]) == (6,)
    replace_file(path, content)


def test_a_permission_is_taken_back_without_a_restart(guarded: Guarded):
    path = guarded.directory / "authorization.toml"
    replace_file(path, AUTHORIZATION.replace(f'"{SERVICE}/InferShape", ', ""))
    guarded.server.await_records(1, "reloaded", what="authorization")
    with guarded.open_client("Client", token=VIEWER) as client, pytest.raises(PermissionDeniedError):
        client.infer_shape([6], [6])
    replace_file(path, AUTHORIZATION)
    guarded.server.await_records(2, "reloaded", what="authorization")


@pytest.mark.parametrize("workers", ["1", "2"])
def test_tokens_in_plain_text_are_not_taken_where_others_can_listen(workers: str, tmp_path: Path):
    (tmp_path / "tokens").write_text(f"web:{BATCH}")
    flags = ["--token-file", str(tmp_path / "tokens"), "--workers", workers]
    with pytest.raises(RuntimeError, match="needs TLS"):
        run_server(*flags, listen=("0.0.0.0:0",)).__enter__()
    with run_server(*flags, "--allow-plaintext-tokens", listen=("0.0.0.0:0",)):
        pass


def test_the_command_line_shows_the_token_of_a_file(guarded: Guarded, tmp_path: Path):
    np.save(tmp_path / "rows.npy", ROWS)
    reach: list[str | Path] = ["--server", guarded.server.address, "--tls-ca", guarded.files.authority]
    command = [
        "reshape",
        tmp_path / "rows.npy",
        "--shape",
        "6",
        "--no-special-zero",
        "-o",
        tmp_path / "out.npy",
        *reach,
    ]
    assert run_command(*command, "--token-file", guarded.directory / "token").code == 0
    assert np.array_equal(np.load(tmp_path / "out.npy"), ROWS.reshape(6))
    refused = run_command(*command)
    assert (refused.code, refused.errors[-1].endswith("[UNAUTHENTICATED]")) == (6, True)
    assert run_command("health", *reach, "--token-file", guarded.directory / "token").code == 0


def test_the_command_line_sends_no_token_in_plain_text(local_server: ServerProcess, tmp_path: Path):
    (tmp_path / "token").write_text(BATCH)
    command: list[str | Path] = ["health", "--server", local_server.address, "--token-file", tmp_path / "token"]
    outcome = run_command(*command)
    assert (outcome.code, "a token is sent over TLS" in outcome.errors[-1]) == (2, True)
    assert run_command(*command, "--allow-plaintext-token").code == 0
