"""Tokens and permissions: which callers are accepted, what each may call, and which methods need no token."""

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
from plain_requests import send_raw
from server_processes import ServerProcess, run_server
from tensor_reshape.client import Client, PermissionDeniedError, Reason, ShapeQuery, UnauthenticatedError
from tensor_reshape.server.grpc.health import HEALTH_SERVICE
from tensor_reshape.server.oip.messages import SERVICE as INFERENCE_SERVICE
from tensor_reshape.server.oip.messages import find_path
from tensor_reshape.v1 import reshape_pb2

BATCH, VIEWER, UNKNOWN = "batch-" * 8, "viewer-" * 8, "nobody-" * 8
BEARER = ("authorization", f"Bearer {BATCH}")
SERVICE = "/tensor_reshape.v1.ReshapeService"
AUTHORIZATION = f"""
[callers]
"token:batch" = ["*"]
"token:viewer" = ["{SERVICE}/InferShape", "{SERVICE}/BatchInferShape"]
"""
ROWS = np.arange(6, dtype=np.float32).reshape(2, 3)


@dataclass(frozen=True)
class Guarded:
    """A server that requires tokens, and its files."""

    server: ServerProcess
    files: Certificates
    directory: Path

    def open_client(self, kind: str = "Client", **settings: Any) -> AbstractContextManager[AnyClient]:
        return open_client(kind, self.server.address, credentials=self.files.trust, **settings)


def hash_token(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    directory = tmp_path_factory.mktemp("guarded")
    files = issue_certificates(directory)
    (directory / "tokens").write_text(f"batch:{BATCH}\nviewer:sha256:{hash_token(VIEWER)}\n")
    (directory / "authorization.toml").write_text(AUTHORIZATION)
    (directory / "token").write_text(f"{BATCH}\n")
    access = ["--token-file", str(directory / "tokens"), "--authorization-file", str(directory / "authorization.toml")]
    with run_server(*files.flags, *access, "--log-level", "debug") as server:
        yield Guarded(server, files, directory)
        server.stop()
        log = "".join(map(str, server.records))  # the log of all calls of these tests
        assert all(token not in log and hash_token(token) not in log for token in (BATCH, VIEWER, UNKNOWN))


QUERIES: list[Callable[[AnyClient], object]] = [
    lambda client: client.infer_shape([2, 3], [6]),
    lambda client: client.infer_shapes([ShapeQuery(data_shape=[6], shape=[2, 3], special_zero=False)]),
]
RESHAPES: list[Callable[[AnyClient], object]] = [
    lambda client: client.reshape(ROWS, [6]),
    lambda client: client.reshape(ROWS, [6], transfer="stream"),
    lambda client: client.reshape(np.zeros(2**20, np.uint8), [-1], transfer="inline"),
]


@pytest.mark.parametrize("given", [{}, {"token": UNKNOWN}], ids=str)
@pytest.mark.parametrize("kind", CALLERS)
def test_call_without_a_valid_token_is_unauthenticated(kind: str, given: dict[str, Any], guarded: Guarded):
    with guarded.open_client(kind, **given) as client:
        for ask in (*QUERIES, *RESHAPES):
            with pytest.raises(UnauthenticatedError) as caught:
                ask(client)
            assert caught.value.reason is Reason.UNAUTHENTICATED


@pytest.mark.parametrize("kind", CALLERS)
def test_caller_may_call_only_permitted_methods(kind: str, guarded: Guarded):
    with guarded.open_client(kind, token=BATCH) as client:
        for ask in (*QUERIES, *RESHAPES):
            ask(client)
    with guarded.open_client(kind, token=VIEWER) as client:
        for ask in QUERIES:
            ask(client)
        for ask in RESHAPES:
            with pytest.raises(PermissionDeniedError, match="may not call this method") as caught:
                ask(client)
            assert caught.value.reason is Reason.PERMISSION_DENIED


def test_caller_permission_can_be_revoked_without_a_restart(guarded: Guarded):
    path = guarded.directory / "authorization.toml"
    replace_file(path, AUTHORIZATION.replace(f'"{SERVICE}/InferShape", ', ""))
    guarded.server.await_records(1, "reloaded", what="authorization")
    with guarded.open_client(token=VIEWER) as client, pytest.raises(PermissionDeniedError):
        client.infer_shape([6], [6])
    replace_file(path, AUTHORIZATION)
    guarded.server.await_records(2, "reloaded", what="authorization")


def test_command_line_sends_the_token_from_a_file(guarded: Guarded, tmp_path: Path):
    np.save(tmp_path / "rows.npy", ROWS)
    reach: list[str | Path] = ["--server", guarded.server.address, "--tls-ca", guarded.files.authority]
    files: list[str | Path] = [tmp_path / "rows.npy", "-o", tmp_path / "out.npy"]
    command = ["reshape", *files, "--shape", "6", "--no-special-zero", *reach]
    assert run_command(*command, "--token-file", guarded.directory / "token").code == 0
    assert np.array_equal(np.load(tmp_path / "out.npy"), ROWS.reshape(6))
    rejected = run_command(*command)
    assert (rejected.code, rejected.errors[-1].endswith("[UNAUTHENTICATED]")) == (6, True)
    assert run_command("health", *reach, "--token-file", guarded.directory / "token").code == 0


@pytest.fixture(scope="module")
def local_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A local server that requires tokens without TLS."""
    path = tmp_path_factory.mktemp("local") / "tokens"
    path.write_text(f"batch:{BATCH}")
    with run_server("--token-file", str(path)) as server:
        yield server


REFLECTIONS = [f"/grpc.reflection.{version}.ServerReflection/ServerReflectionInfo" for version in ("v1", "v1alpha")]
OPEN = {
    *(f"/grpc.health.v1.Health/{name}" for name in ("Check", "List", "Watch")),
    *map(find_path, ("ServerLive", "ServerReady", "ModelReady")),
}


def find_code(channel: grpc.Channel, path: str, *metadata: tuple[str, str]) -> str:
    """Returns the status code of a call with one empty message. On the wire, a unary call is such a stream."""
    method: grpc.StreamStreamMultiCallable[bytes, bytes] = channel.stream_stream(path)
    call: Any = method(iter([b""]), metadata=metadata, timeout=60)
    with suppress(grpc.RpcError):
        if path.endswith("/Watch"):
            next(call)  # a watch does not end
            call.cancel()
            return "OK"
        for _ in call:
            pass
    return str(call.code().name)


def test_every_method_except_health_requires_a_token(local_server: ServerProcess):
    services = [reshape_pb2.DESCRIPTOR.services_by_name["ReshapeService"], INFERENCE_SERVICE, HEALTH_SERVICE]
    paths = [f"/{service.full_name}/{method.name}" for service in services for method in service.methods]
    with grpc.insecure_channel(local_server.address) as channel:
        served = {path for path in (*paths, *REFLECTIONS) if find_code(channel, path, BEARER) != "UNIMPLEMENTED"}
        assert {path for path in served if find_code(channel, path) != "UNAUTHENTICATED"} == OPEN
        assert served >= {*REFLECTIONS, INFER}
        assert send_raw(channel, INFER, build_request().SerializeToString(), metadata=(BEARER,))


def test_health_checks_need_no_credentials_and_reflection_needs_a_permission(guarded: Guarded):
    with grpc.secure_channel(guarded.server.address, guarded.files.trust) as channel:
        check = health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest())
        assert check.status == health_pb2.HealthCheckResponse.SERVING
        viewer = ("authorization", f"Bearer {VIEWER}")
        for path in REFLECTIONS:
            codes = [find_code(channel, path, *metadata) for metadata in ((), (viewer,), (BEARER,))]
            assert codes == ["UNAUTHENTICATED", "PERMISSION_DENIED", "OK"]


def test_command_line_sends_a_token_without_tls_if_allowed(local_server: ServerProcess, tmp_path: Path):
    (tmp_path / "token").write_text(BATCH)
    reach: list[str | Path] = ["--server", local_server.address, "--token-file", tmp_path / "token"]
    assert run_command("info", *reach, "--allow-plaintext-token").code == 0


def test_token_rotation_in_all_workers_fails_no_call(tmp_path: Path):
    old, new = "old-" * 10, "new-" * 10
    tokens, shown = tmp_path / "tokens", tmp_path / "token"
    tokens.write_text(f"web:{old}")
    shown.write_text(old)
    flags = ["--token-file", str(tokens), "--workers", "2", "--allow-plaintext-tokens"]
    with run_server(*flags, listen=("0.0.0.0:0",)) as server:
        address = server.address.replace("0.0.0.0", "127.0.0.1")
        with (
            Client(address, token_file=shown, allow_plaintext_token=True) as client,
            Client(address, token=old, allow_plaintext_token=True) as late,
        ):
            for reloads, lines in enumerate((f"web:{old}\nweb:{new}", f"web:{new}"), 1):
                assert client.infer_shape([6], [6], special_zero=False) == (6,)
                assert late.infer_shape([6], [6], special_zero=False) == (6,)
                replace_file(tokens, lines)
                server.await_records(2 * reloads, "reloaded", what="tokens")
                shown.write_text(new)
            assert client.infer_shape([6], [6], special_zero=False) == (6,)
            with pytest.raises(UnauthenticatedError):
                late.infer_shape([6], [6], special_zero=False)


def test_server_rejects_tokens_without_tls_on_network_addresses(tmp_path: Path):
    (tmp_path / "tokens").write_text(f"web:{BATCH}")
    with pytest.raises(RuntimeError, match="needs TLS"):
        run_server("--token-file", str(tmp_path / "tokens"), "--workers", "2", listen=("0.0.0.0:0",)).__enter__()
