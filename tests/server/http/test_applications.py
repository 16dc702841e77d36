"""The routes of the application, its checks of Host and Origin, metrics and files. It runs in any ASGI server."""

import json
import os
import re
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from http_calls import (
    ANSWER,
    BATCH_PATH,
    INFER_PATH,
    QUESTION,
    connect,
    post,
    read_answer,
    receive_all,
    request,
    write_batch,
    write_request,
)
from http_servers import CONFIG, SlowService, run_http
from tensor_reshape.rules.errors import Reason
from tensor_reshape.server.config import Config
from tensor_reshape.server.http import applications
from tensor_reshape.server.http.applications import Application, read_files
from tensor_reshape.server.http.asgi import HttpRequest, Message, Reply
from tensor_reshape.server.http.commands import build_from_environment
from tensor_reshape.server.http.transcoder import MAX_QUERY_BODY_BYTES
from tensor_reshape.server.telemetry.metrics import (
    BUDGET_BYTES,
    CALL_DURATION,
    CALLS,
    LOOKUPS,
    MAX_CALLS,
    OPEN_CALLS,
    OTHER,
    PROCESSING,
    REJECTIONS,
    REQUEST_BYTES,
    RESPONSE_BYTES,
    SharedCounters,
    list_methods,
)
from tensor_reshape.wire.methods import split_method
from waits import WAIT_SECONDS, await_that

ORIGIN = "https://page.example"
OPENAPI, METRICS, DRAWING = "/openapi.json", "/metrics", "/explore/drawing"
TOKEN = "0123456789abcdef" * 2
FILES = sorted(read_files())


@asynccontextmanager
async def open_client(config: Config = CONFIG, **arguments: Any) -> AsyncIterator[httpx.AsyncClient]:
    """Opens a client of the application in another ASGI server, without a guard."""
    app = Application(config, **arguments)
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost:8080") as client:
        yield client
    app.end()


@pytest.fixture
def tokens(tmp_path: Path) -> Config:
    """A configuration with a token."""
    file = tmp_path / "tokens"
    file.write_text(f"me:{TOKEN}\n")
    return replace(CONFIG, token_file=file)


def scrape() -> Reply:
    return Reply(200, (b"metrics",), "text/plain")


@pytest.mark.parametrize(
    ("method", "path", "code", "allowed"),
    [
        ("GET", "/healthz", 200, None),
        ("HEAD", "/healthz", 200, None),
        ("GET", "/healthz/", 404, None),
        ("POST", "/healthz", 405, "GET, HEAD"),
        ("GET", INFER_PATH, 405, "POST"),
        ("HEAD", INFER_PATH, 405, "POST"),
        ("OPTIONS", INFER_PATH, 405, "POST"),
        ("PUT", INFER_PATH, 405, "POST"),
        ("DELETE", "/", 405, "GET, HEAD"),
        ("GET", "/nothing", 404, None),
        ("GET", "/../../etc/passwd", 404, None),
        ("GET", "/explore/../index.html", 404, None),
        ("POST", "/tensor_reshape.v1.ReshapeService/StreamReshape", 404, None),
        ("POST", "/inference.GRPCInferenceService/ModelInfer", 404, None),
        ("GET", "/v2other", 404, None),
    ],
)
def test_path_and_method_choose_the_route(address: str, method: str, path: str, code: int, allowed: str | None):
    reply = request(address, method, path)
    assert (reply.code, reply.headers.get("allow")) == (code, allowed)
    assert reply.headers["content-type"] == "application/json"
    assert (reply.content == b"") == (method == "HEAD")


def test_error_of_an_unknown_path_is_a_status(address: str):
    reply = post(address, path="/nothing")
    assert (reply.code, reply.document) == (404, {"code": 12, "message": "this server has no such path"})


@pytest.mark.parametrize("path", ["/healthz", "/"])
def test_head_request_has_the_headers_of_get(address: str, path: str):
    head, whole = (request(address, method, path) for method in ("HEAD", "GET"))
    assert (head.code, head.content) == (200, b"")
    assert head.headers["content-length"] == whole.headers["content-length"] == str(len(whole.content))
    assert head.headers["content-type"] == whole.headers["content-type"]


def test_health_does_not_depend_on_readiness():
    with run_http() as running:
        assert request(running.address, "GET", "/readyz").document == {"status": "SERVING"}
        running.app.is_serving = False
        draining = request(running.address, "GET", "/readyz")
        assert (draining.code, draining.document) == (503, {"status": "NOT_SERVING"})
        assert request(running.address, "GET", "/healthz").document == {"status": "SERVING"}
        assert request(running.address, "GET", "/v2/health/ready").document == {"ready": False}


@pytest.mark.parametrize("path", ["/healthz", "/nothing", INFER_PATH, "/v2", "/v2/nothing"])
def test_every_response_has_safe_headers(address: str, path: str):
    headers = request(address, "GET", path).headers
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["content-security-policy"].startswith("default-src 'none'")
    assert headers["cache-control"] == "no-store"
    assert "server" not in headers


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:1", "127.0.0.1:8080", "[::1]", "[::1]:8080", "localhost:"])
def test_own_host_is_served(address: str, host: str):
    assert request(address, "GET", "/healthz", headers={"host": host}).code == 200


@pytest.mark.parametrize(
    "host",
    ["evil.example", "localhost.evil.example", "127.0.0.1.evil.example:80", "", "[::1", "localhost:x", "localhost@a"],
)
def test_foreign_host_is_rejected(address: str, host: str):
    assert request(address, "GET", "/healthz", headers={"host": host}).code == 421


def test_host_is_not_checked_if_other_machines_can_connect():
    with run_http(replace(CONFIG, http_listen="0.0.0.0:0")) as running:
        address = running.address.replace("0.0.0.0", "127.0.0.1")
        assert post(address, headers={"host": "shapes.example"}).document == ANSWER


@pytest.mark.parametrize("hosts", [(), (b"localhost", b"localhost"), (b"localhost", b"evil.example")], ids=len)
def test_request_needs_one_host_header(address: str, hosts: tuple[bytes, ...]):
    with connect(address) as connection:
        lines = b"".join(b"Host: %b\r\n" % host for host in hosts)
        connection.sendall(b"GET /healthz HTTP/1.1\r\n%b\r\n" % lines)
        code, body = read_answer(connection)
    assert (code, json.loads(body)["message"]) == (400, "the request must have one Host header")


def test_request_of_http_1_0_is_answered_without_keep_alive(address: str):
    with connect(address) as connection:
        connection.sendall(b"GET /healthz HTTP/1.0\r\nHost: localhost\r\n\r\n")
        assert receive_all(connection).startswith(b"HTTP/1.1 200")


def test_own_origin_is_served(address: str):
    assert post(address, headers={"origin": f"http://{address}"}).code == 200


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", "http://localhost:1", "http://localhost.evil.example"]
)
def test_foreign_origin_is_rejected(address: str, origin: str):
    reply = post(address, headers={"host": "localhost", "origin": origin})
    assert (reply.code, reply.document["code"]) == (403, 7)
    assert not any(name.startswith("access-control") for name in reply.headers)


def test_page_of_an_allowed_origin_may_call():
    with run_http(replace(CONFIG, http_allow_origin=(ORIGIN,))) as running:
        asked = {"origin": ORIGIN, "access-control-request-method": "POST"}
        preflight = request(running.address, "OPTIONS", INFER_PATH, headers=asked)
        reply = post(running.address, headers={"origin": ORIGIN})
        rejected = post(running.address, {}, headers={"origin": ORIGIN})
    assert (preflight.code, preflight.content) == (204, b"")
    assert "content-length" not in preflight.headers
    assert {"connect-protocol-version", "content-type", "authorization"} <= {
        *preflight.headers["access-control-allow-headers"].split(", ")
    }
    assert preflight.headers["access-control-allow-methods"] == "GET, POST"
    assert (reply.code, rejected.code) == (200, 400)
    for one in (preflight, reply, rejected):
        assert (one.headers["access-control-allow-origin"], one.headers["vary"]) == (ORIGIN, "origin")
        exposed = {*one.headers["access-control-expose-headers"].split(", ")}
        assert exposed == {"x-request-id", "retry-after", "inference-header-content-length", "tensor-reshape-reason"}


@pytest.mark.parametrize("origin", ["https://other.example", "null", "http://page.example", "https://page.example:1"])
def test_page_of_another_origin_may_not_call(origin: str):
    with run_http(replace(CONFIG, http_allow_origin=(ORIGIN,))) as running:
        for reply in (
            request(running.address, "OPTIONS", INFER_PATH, headers={"origin": origin}),
            post(running.address, headers={"origin": origin}),
        ):
            assert reply.code == 403
            assert "access-control-allow-origin" not in reply.headers


def test_metrics_have_a_path_only_without_tokens(tokens: Config):
    with run_http(scrape=scrape) as running:
        reply = request(running.address, "GET", METRICS)
        assert (reply.content, reply.headers["content-type"]) == (b"metrics", "text/plain")
    with run_http(tokens, scrape=scrape) as running:
        assert request(running.address, "GET", METRICS).code == 404


def test_metrics_have_no_path_beside_grpc(address: str):
    assert request(address, "GET", METRICS).code == 404


def test_openapi_description_is_served_only_without_tokens(tokens: Config):
    for config, code in ((CONFIG, 200), (tokens, 404)):
        with run_http(config) as running:
            assert request(running.address, "GET", OPENAPI).code == code, config


def test_probes_and_pages_need_no_token(tokens: Config):
    with run_http(tokens) as running:
        for path in ("/healthz", "/readyz", "/v2/health/live", "/v2/models/reshape/ready", "/"):
            assert request(running.address, "GET", path).code == 200, path
        assert post(running.address, path=DRAWING).code == 401


@pytest.mark.parametrize(("method", "path"), [("GET", "/nothing"), ("PUT", "/")])
def test_request_that_begins_no_call_has_a_log_line(
    address: str, method: str, path: str, caplog: pytest.LogCaptureFixture
):
    with caplog.at_level("INFO"):
        request(address, method, path)
    (line,) = [vars(record) for record in caplog.records if record.message == "rejected"]
    assert (line["method"], line["code"], bool(line["peer"])) == (path, "UNIMPLEMENTED", True)
    assert line["detail"].startswith("this ")


def test_bug_of_a_route_gets_500_without_its_text(caplog: pytest.LogCaptureFixture):
    def fail() -> Reply:
        text = "secret"
        raise ValueError(text)

    with caplog.at_level("INFO"), run_http(scrape=fail) as running:
        reply = request(running.address, "GET", METRICS)
    assert (reply.code, reply.document) == (500, {"code": 13, "message": "internal error"})
    assert [record.message for record in caplog.records if record.message in {"bug", "failed", "rejected"}] == [
        "bug",
        "failed",
    ]


def test_calls_are_counted():
    counters = SharedCounters(list_methods())
    method = split_method(INFER_PATH)
    with run_http(counters=counters) as running:
        post(running.address)
        rejection = post(running.address, {})
        running.await_free()
    assert counters.cells[CALLS][*method, "OK"][0] == 1
    assert counters.cells[CALLS][*method, "INVALID_ARGUMENT"][0] == 1
    assert counters.cells[REJECTIONS][rejection.reason,][0] == 1
    for family in (CALL_DURATION, REQUEST_BYTES, RESPONSE_BYTES):
        assert sum(counters.cells[family][method][:-1]) == 2, family
    assert counters.cells[REQUEST_BYTES][method][-1] == len(json.dumps(QUESTION)) + 2
    assert counters.cells[RESPONSE_BYTES][method][-1] > len(rejection.content)


def test_unknown_paths_are_counted_together():
    counters = SharedCounters(list_methods())
    with run_http(counters=counters) as running:
        for path in ("/a", "/b"):
            assert post(running.address, path=path).code == 404
    assert counters.cells[CALLS][OTHER, OTHER, "UNIMPLEMENTED"][0] == 2


def test_gauges_are_updated(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(applications, "RELOAD_SECONDS", 0.01)
    counters = SharedCounters(list_methods())
    with run_http(counters=counters) as running, connect(running.address) as connection:
        connection.sendall(write_request(b"{", length=100))
        await_that(lambda: counters.cells[OPEN_CALLS]["working",][0] == 1)
        assert counters.cells[MAX_CALLS][()][0] == CONFIG.max_calls
        assert counters.cells[BUDGET_BYTES][PROCESSING,][0] == CONFIG.memory_budget_bytes
        for _ in range(2):
            post(running.address)
        await_that(lambda: counters.cells[LOOKUPS]["hit",][0] == 1)


def test_changed_tokens_are_reloaded(tokens: Config, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(applications, "RELOAD_SECONDS", 0.01)
    with run_http(tokens) as running:
        assert tokens.token_file is not None
        tokens.token_file.write_text("you:" + "f" * 32)
        headers = {"authorization": "Bearer " + "f" * 32}
        await_that(lambda: post(running.address, headers=headers).code == 200)


async def test_application_needs_no_guard():
    async with open_client() as client:
        assert (await client.post(INFER_PATH, json=QUESTION)).json() == ANSWER
        assert (await client.get("/healthz")).status_code == 200
        assert (await client.get("/nothing")).status_code == 404


async def test_long_work_needs_no_guard():
    async with open_client() as client:
        headers = {"content-type": "application/json"}
        reply = await client.post(BATCH_PATH, content=write_batch(100), headers=headers)
        assert len(reply.json()["results"]) == 100


async def test_body_limit_needs_no_guard():
    async with open_client() as client:
        reply = await client.post(INFER_PATH, content=b" " * (1 << 17), headers={"content-type": "application/json"})
        assert (reply.status_code, reply.json()["details"][0]["reason"]) == (413, Reason.MESSAGE_TOO_LARGE)


async def test_life_cycle_of_the_asgi_server_is_confirmed():
    sent = []
    events = [{"type": "lifespan.startup"}, {"type": "lifespan.shutdown"}]

    async def receive() -> dict[str, Any]:
        return events.pop(0)

    async def send(event: Message) -> None:
        sent.append(event["type"])

    await Application(CONFIG)({"type": "lifespan"}, receive, send)
    assert sent == ["lifespan.startup.complete", "lifespan.shutdown.complete"]


@pytest.mark.parametrize(
    ("client", "peer"),
    [
        (("192.0.2.1", 5), "ipv4:192.0.2.1:5"),
        (("2001:db8::1", 5), "ipv6:%5B2001:db8::1%5D:5"),
        (("::ffff:192.0.2.1", 5), "ipv4:192.0.2.1:5"),
        (None, "unix:"),
    ],
)
def test_peer_has_the_notation_of_grpc(client: object, peer: str):
    scope = {"method": "GET", "path": "/", "headers": [], "client": client}
    assert HttpRequest(scope, None).peer == peer  # type: ignore[arg-type] # has no body


def test_headers_become_metadata_if_grpc_accepts_them():
    headers = ((b"x-request-id", b"a"), (b"x-name", "ü".encode()), (b"x-bin", b"b"), (b"y", b"c"), (b"y", b"d"))
    request = HttpRequest({"method": "GET", "path": "/", "headers": headers}, None)  # type: ignore[arg-type] # has no body
    assert request.metadata == [("x-request-id", "a"), ("y", "c"), ("y", "d")]


def test_environment_configures_the_application(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("TENSOR_RESHAPE_MAX_CALLS", "7")
    app = build_from_environment()
    assert app.admission.max_requests == 7
    app.end()


def test_uvicorn_serves_the_application_of_the_environment(tmp_path: Path):
    socket_path = tmp_path / "socket"
    tokens = tmp_path / "tokens"
    tokens.write_text(f"me:{TOKEN}\n")
    command = [sys.executable, "-m", "uvicorn", "tensor_reshape.server.http:app", "--uds", str(socket_path)]
    environment = {**os.environ, "TENSOR_RESHAPE_TOKEN_FILE": str(tokens)}
    process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        assert process.stdout is not None
        assert any("Uvicorn running on" in line for line in process.stdout)
        with httpx.Client(transport=httpx.HTTPTransport(uds=str(socket_path)), timeout=WAIT_SECONDS) as client:
            link = f"http://localhost{INFER_PATH}"
            assert client.post(link, json=QUESTION).status_code == 401
            assert client.post(link, json=QUESTION, headers={"authorization": f"Bearer {TOKEN}"}).json() == ANSWER
    finally:
        process.terminate()
        process.communicate(timeout=WAIT_SECONDS)
    assert process.returncode in {0, -15}


@pytest.mark.parametrize("path", FILES)
def test_file_has_its_type_and_a_policy_without_other_servers(address: str, path: str):
    reply = request(address, "GET", path)
    kinds = {"": "text/html; charset=utf-8", "css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
    assert (reply.code, reply.headers["content-type"]) == (200, kinds[path.rpartition(".")[2].lstrip("/")])
    assert reply.content
    policy = reply.headers["content-security-policy"]
    assert policy.startswith("default-src 'none'; script-src 'self'")
    assert "frame-ancestors 'none'" in policy
    assert "http" not in policy
    assert "unsafe" not in policy


def test_page_loads_only_files_of_the_server(address: str):
    page = request(address, "GET", "/").content.decode()
    linked = {f"/{link.lstrip('/')}" for link in re.findall(r'(?:src|href)="([^"#:]+)"', page)}
    assert linked
    for path in linked:
        assert request(address, "GET", path).code == 200, path


def test_browsers_load_a_file_again_with_each_visit(address: str):
    assert request(address, "GET", "/").headers["cache-control"] == "no-cache"


def test_drawing_is_an_svg(address: str):
    reply = post(address, path=DRAWING)
    assert (reply.code, reply.headers["content-type"]) == (200, "image/svg+xml")
    assert reply.content.startswith(b"<svg")
    assert reply.headers["content-security-policy"].startswith("default-src 'none'")


def test_rejected_query_has_a_drawing_too(address: str):
    wrong = {**QUESTION, "data": {"shape": {"dims": [6]}}, "shape": {"items": [4, -1]}}
    assert post(address, wrong).reason == Reason.NOT_DIVISIBLE
    assert post(address, wrong, DRAWING).content.startswith(b"<svg")


def test_drawing_of_malformed_json_is_rejected(address: str):
    reply = post(address, {"shape": 1}, DRAWING)
    assert (reply.code, reply.reason) == (400, Reason.MESSAGE_MALFORMED)


def test_drawing_has_the_size_limit_of_a_query(address: str):
    assert post(address, "a" * MAX_QUERY_BODY_BYTES, DRAWING).code == 413


def test_drawing_counts_as_a_query():
    counters = SharedCounters(list_methods())
    with run_http(counters=counters) as running:
        post(running.address, path=DRAWING)
        running.await_free()
    assert counters.cells[CALLS][*split_method(INFER_PATH), "OK"][0] == 1


def test_drawing_does_not_wait_for_a_batch():
    service = SlowService()
    with run_http(service=service) as running, connect(running.address) as busy:
        busy.sendall(write_request(write_batch(1), path=BATCH_PATH))
        service.await_arrival()
        assert post(running.address, path=DRAWING).code == 200


def test_openapi_description_names_the_paths_of_the_server(address: str):
    reply = request(address, "GET", OPENAPI)
    assert reply.headers["content-type"] == "application/json"
    for path in json.loads(reply.content)["paths"]:
        if "{" not in path:
            assert request(address, "GET", path).code in {200, 405}, path
