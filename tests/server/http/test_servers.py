"""A process that serves HTTP: its start, TLS, draining, its end, and what it imports."""

import contextlib
import json
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from queue import SimpleQueue

import pytest
import trustme
import uvicorn

from certificates import Certificates, issue_certificates, replace_file
from http_calls import (
    ANSWER,
    BATCH_PATH,
    QUESTION,
    change_body,
    connect,
    post,
    read_answer,
    receive_all,
    request,
    write_batch,
    write_body,
    write_json,
    write_request,
)
from http_servers import CONFIG, RunningPort, SlowService, run_http
from in_process import ANY_PORT, RecordingGate
from tensor_reshape.server.config import Config, ConfigError
from tensor_reshape.server.http import applications, guards, servers
from tensor_reshape.server.http.applications import Application
from tensor_reshape.server.http.asgi import LENGTH_HEADER
from tensor_reshape.server.http.servers import HttpServer
from tensor_reshape.server.process.listeners import hold
from waits import WAIT_SECONDS, await_that

BATCH = write_request(write_batch(1), path=BATCH_PATH)
PROBE = write_request(path="/healthz", method="GET")


def can_connect(address: str) -> bool:
    try:
        connect(address).close()
    except ConnectionRefusedError:
        return False
    return True


def test_stopped_server_is_not_ready_but_serves_during_the_drain_period():
    with run_http(replace(CONFIG, drain_seconds=3600)) as server:
        hurry = threading.Event()
        stopping = threading.Thread(target=server.port.stop, args=(hurry,))
        stopping.start()
        await_that(lambda: request(server.address, "GET", "/readyz").code == 503)
        assert request(server.address, "GET", "/healthz").code == 200
        assert post(server.address).document == ANSWER
        hurry.set()
        stopping.join(WAIT_SECONDS)
        assert not stopping.is_alive()
        assert not can_connect(server.address)


def test_running_server_sends_heartbeats(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(servers, "_BEAT_SECONDS", 0.001)
    server, beats = HttpServer(CONFIG), threading.Semaphore(0)
    server.beat(beats.release)
    assert not beats.acquire(blocking=False)
    server.start()
    for _ in range(3):
        assert beats.acquire(timeout=WAIT_SECONDS)
    server.stop(threading.Event())


def test_process_serves_an_address_that_its_supervisor_has_reserved():
    with hold(ANY_PORT) as address:
        server = HttpServer(replace(CONFIG, http_listen=address), shares_ports=True)
        server.start()
        assert server.address == address
        assert post(address).document == ANSWER
        server.stop(threading.Event())


@pytest.mark.parametrize("hurries", [False, True])
def test_application_ends_once(hurries: bool, monkeypatch: pytest.MonkeyPatch):
    ends: list[None] = []
    end = Application.end
    monkeypatch.setattr(Application, "end", lambda app: ends.append(end(app)))
    server, hurry = HttpServer(CONFIG), threading.Event()
    server.start()
    assert post(server.address).document == ANSWER
    if hurries:
        hurry.set()
    server.stop(hurry)
    assert len(ends) == 1


SCRIPT = f"""
import sys, threading, urllib.request
from tensor_reshape.server.config import Config
from tensor_reshape.server.http.servers import HttpServer

server = HttpServer(Config(http_listen="{ANY_PORT}", drain_seconds=0))
server.start()
headers = {{"content-type": "application/json"}}
link = f"http://{{server.address}}/tensor_reshape.v1.ReshapeService/InferShape"
body = b'{json.dumps(QUESTION)}'
with urllib.request.urlopen(urllib.request.Request(link, body, headers)) as response:
    assert response.status == 200
server.stop(threading.Event())
print(*(name for name in ("grpc", "starlette", "h11", "numpy", "tensor_reshape.server.engine") if name in sys.modules))
"""


def test_process_for_http_imports_neither_grpc_nor_the_engine():
    run = subprocess.run(
        [sys.executable, "-c", SCRIPT], capture_output=True, text=True, timeout=WAIT_SECONDS, check=False
    )
    assert (run.returncode, run.stdout.strip(), run.stderr) == (0, "", "")


def test_import_of_the_package_imports_no_server():
    script = "import sys, tensor_reshape.server.http; print('uvicorn' in sys.modules, 'google.protobuf' in sys.modules)"
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)
    assert run.stdout.strip() == "False False"


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return issue_certificates(tmp_path_factory.mktemp("certificates"))


def build_config(files: Certificates, *, is_mutual: bool = False) -> Config:
    client_ca = files.authority if is_mutual else None
    return replace(CONFIG, tls_certificate=files.server, tls_key=files.server_key, tls_client_ca=client_ca)


def count(running: RunningPort) -> int:
    return len(running.port._connections)


def probe(connection: socket.socket) -> int:
    connection.sendall(PROBE)
    return read_answer(connection)[0]


@pytest.fixture
def secure(files: Certificates) -> Iterator[RunningPort]:
    with run_http(build_config(files)) as running:
        yield running


def test_call_over_tls_is_answered(files: Certificates, secure: RunningPort):
    assert post(secure.address, context=files.build_context()).document == ANSWER


def test_large_body_over_tls_is_answered(files: Certificates, secure: RunningPort):
    reply = post(secure.address, {"items": [{"question": QUESTION}] * 2000}, BATCH_PATH, context=files.build_context())
    assert len(reply.document["results"]) == 2000


def test_large_response_over_tls_is_complete(files: Certificates, secure: RunningPort):
    size = 4 << 20
    body = write_body(binary=size, datatype="INT8", shape=[size])
    body = change_body(body, parameters={"shape": "[-1]", "special_zero": True, "binary_data_output": True})
    headers = {LENGTH_HEADER: str(len(body))}
    sent = body + bytes(size)
    reply = request(secure.address, "POST", "/v2/models/reshape/infer", sent, headers, context=files.build_context())
    assert reply.content.endswith(bytes(size))
    secure.await_free()


def test_oversized_headers_over_tls_close_the_connection(files: Certificates, secure: RunningPort):
    with files.build_context().wrap_socket(connect(secure.address), server_hostname="localhost") as connection:
        with contextlib.suppress(OSError):
            connection.sendall(b"GET / HTTP/1.1\r\nX: " + b"a" * 4 * guards.MAX_HEAD_BYTES)
        with contextlib.suppress(ssl.SSLError):
            assert receive_all(connection).partition(b" Request")[0] in {b"", b"HTTP/1.1 431"}
    await_that(lambda: not count(secure))


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion:DeprecationWarning")
def test_old_versions_of_tls_are_rejected(files: Certificates, secure: RunningPort):
    context = files.build_context()
    context.minimum_version = ssl.TLSVersion.TLSv1
    context.maximum_version = ssl.TLSVersion.TLSv1_1
    with pytest.raises(OSError):  # noqa: PT011 - an alert or a reset
        post(secure.address, context=context)


def test_certificate_of_the_client_is_its_identity(files: Certificates):
    gate = RecordingGate()
    with run_http(build_config(files, is_mutual=True), gates=[gate]) as running:
        assert post(running.address, context=files.build_context(has_certificate=True)).code == 200
    assert [info.identity for info in gate.infos] == ["email:client@example.org"]


def test_identity_without_a_permission_is_rejected(files: Certificates, tmp_path: Path):
    (tmp_path / "authorization").write_text('[callers]\n"dns:other.example" = ["*"]')
    config = replace(build_config(files, is_mutual=True), authorization_file=tmp_path / "authorization")
    with run_http(config) as running:
        assert post(running.address, context=files.build_context(has_certificate=True)).code == 403


def test_client_without_a_required_certificate_gets_no_response(files: Certificates):
    with run_http(build_config(files, is_mutual=True)) as running:
        with pytest.raises(OSError):  # noqa: PT011 - an alert or a reset
            post(running.address, context=files.build_context())
        await_that(lambda: not count(running))


def test_changed_certificates_are_used_for_new_connections(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(applications, "RELOAD_SECONDS", 0.01)
    old, new = (tmp_path / name for name in ("old", "new"))
    for folder in (old, new):
        folder.mkdir()
    files, others = issue_certificates(old), issue_certificates(new, trustme.CA())
    with run_http(build_config(files)) as running:
        assert post(running.address, context=files.build_context()).code == 200
        replace_file(files.server_key, others.server_key.read_bytes())
        replace_file(files.server, others.server.read_bytes())

        def is_new() -> bool:
            try:
                return post(running.address, context=others.build_context()).code == 200
            except ssl.SSLError:
                return False

        await_that(is_new)


@pytest.mark.parametrize("sent", [b"", b"\r\n", b"\x16\x03\x01\x02\x00"], ids=["silent", "plain", "begun"])
def test_client_that_does_not_complete_the_handshake_is_closed(
    files: Certificates, monkeypatch: pytest.MonkeyPatch, sent: bytes
):
    monkeypatch.setattr(guards, "HEAD_SECONDS", 0.1)
    with run_http(build_config(files)) as running, connect(running.address) as connection:
        connection.sendall(sent)
        assert receive_all(connection) == b""
        await_that(lambda: not count(running))


def test_silent_client_after_the_handshake_is_closed(files: Certificates, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(guards, "HEAD_SECONDS", 0.2)
    with run_http(build_config(files)) as running, connect(running.address) as plain:
        with files.build_context().wrap_socket(
            plain, server_hostname="localhost", suppress_ragged_eofs=True
        ) as connection:
            assert receive_all(connection) == b""
        await_that(lambda: not count(running))


def test_plain_text_to_a_tls_port_is_closed(files: Certificates, secure: RunningPort):
    with connect(secure.address) as connection:
        connection.sendall(PROBE)
        assert b"HTTP" not in receive_all(connection)
    await_that(lambda: not count(secure))
    assert post(secure.address, context=files.build_context()).code == 200


def test_failed_handshakes_keep_no_places(secure: RunningPort):
    for _ in range(5):
        with connect(secure.address) as connection:
            connection.sendall(b"\x16\x03\x01")
    with pytest.raises(ssl.SSLError):
        post(secure.address, context=ssl.create_default_context())
    await_that(lambda: not count(secure))


def test_connection_sends_small_parts_without_delay():
    with run_http() as running, connect(running.address) as connection:
        assert probe(connection) == 200
        (guard,) = running.port._connections._open
        assert guard._transport is not None
        accepted = guard._transport.get_extra_info("socket")
        assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def test_draining_port_closes_idle_connections_and_refuses_new_ones():
    with run_http() as running, connect(running.address) as idle:
        assert probe(idle) == 200
        running.port._server.should_exit = True
        assert receive_all(idle) == b""
        with pytest.raises(ConnectionRefusedError):
            connect(running.address)


def test_draining_port_answers_running_requests():
    service = SlowService()
    with run_http(service=service) as running, connect(running.address) as busy:
        busy.sendall(BATCH)
        service.await_arrival()
        running.port._server.should_exit = True
        await_that(lambda: not can_connect(running.address))
        service.released.set()
        answer = receive_all(busy)
    assert answer.startswith(b"HTTP/1.1 200")


def test_draining_tls_port_does_not_wait_for_the_end_of_tls(files: Certificates, secure: RunningPort):
    with files.build_context().wrap_socket(connect(secure.address), server_hostname="localhost") as idle:
        assert probe(idle) == 200
        secure.port._server.should_exit = True
        await_that(lambda: not secure.port._thread.is_alive(), seconds=20.0)  # asyncio alone would wait 30 seconds


def test_request_that_exceeds_the_grace_is_ended():
    service = SlowService()
    with run_http(service=service) as running, connect(running.address) as busy:
        busy.sendall(BATCH)
        service.await_arrival()
        assert running.port.stop(threading.Event()) == 1  # the grace is one second
        assert not receive_all(busy).startswith(b"HTTP/1.1 200")
        service.await_stop()


def test_address_is_in_use_until_the_port_ends():
    with run_http() as running:
        config = replace(CONFIG, http_listen=running.address)
        with pytest.raises(ConfigError, match="cannot listen on"):
            HttpServer(config)
    with run_http(config) as running:
        assert post(running.address).document == ANSWER


def test_connections_wait_until_the_port_starts():
    port = HttpServer(CONFIG)
    with connect(port.address) as early:
        early.sendall(write_request(write_json(QUESTION)))
        port.start()
        assert read_answer(early)[0] == 200
    port.stop(threading.Event())


def test_process_ends_when_the_thread_of_the_port_ends(monkeypatch: pytest.MonkeyPatch):
    reasons = SimpleQueue[str]()

    async def fail(_server: uvicorn.Server, _counter: int) -> bool:
        raise ValueError

    monkeypatch.setattr(servers, "end_process", reasons.put)
    monkeypatch.setattr(uvicorn.Server, "on_tick", fail)
    with run_http():
        assert reasons.get(timeout=WAIT_SECONDS) == "the thread that serves HTTP has ended"


def test_task_is_repeated_after_a_bug(caplog: pytest.LogCaptureFixture):
    port, calls = HttpServer(CONFIG), threading.Semaphore(0)

    def fail() -> None:
        calls.release()
        raise ValueError

    port.app.tasks.append((0.001, fail))
    port.start()
    for _ in range(3):
        assert calls.acquire(timeout=WAIT_SECONDS)
    assert request(port.address, "GET", "/healthz").code == 200
    port.stop(threading.Event())
    assert "bug" in [record.message for record in caplog.records]
