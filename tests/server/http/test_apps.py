"""The response to each path of the application, and the rejected requests, without a server."""

from collections.abc import AsyncIterator

import httpx
import pytest

from json_bodies import BATCH_PATH, INFER_PATH, QUESTION, write_json
from tensor_reshape.rules.errors import Reason
from tensor_reshape.rules.limits import DEFAULT_LIMITS
from tensor_reshape.server.http.apps import build_app, build_health_route, build_method_routes
from tensor_reshape.server.http.descriptions import HEALTH_PATH
from tensor_reshape.server.http.explorer.commands import serve_call
from tensor_reshape.server.http.json_methods import MAX_BATCH_BYTES, MAX_QUESTION_BYTES, build_json_methods
from tensor_reshape.server.http.requests import LOCAL_HOSTS
from tensor_reshape.server.service.methods import ReshapeService

METHODS = build_json_methods(ReshapeService(DEFAULT_LIMITS))
JSON = {"content-type": "application/json"}


@pytest.fixture
async def client() -> AsyncIterator[httpx.AsyncClient]:
    transport = httpx.ASGITransport(
        build_app([*build_method_routes(serve_call, METHODS), build_health_route(lambda: True)], LOCAL_HOSTS)
    )
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost:8080") as client:
        yield client


async def test_http_error_body_is_a_status_with_details(client: httpx.AsyncClient):
    wrong = {**QUESTION, "shape": {"items": [-2]}}
    answer = await client.post(INFER_PATH, json=wrong, headers={"x-request-id": "mine"})
    assert (answer.status_code, answer.json()["code"], answer.headers["x-request-id"]) == (400, 3, "mine")
    details = {detail["@type"].rpartition(".")[2]: detail for detail in answer.json()["details"]}
    assert details["ErrorInfo"]["reason"] == Reason.INVALID_TARGET_VALUE
    assert details["BadRequest"]["fieldViolations"][0]["field"] == "shape[0]"


async def test_http_body_must_be_json(client: httpx.AsyncClient):
    for headers, code in (
        ({"content-type": "text/plain"}, 415),
        ({"content-type": "application/x-www-form-urlencoded"}, 415),
        ({}, 415),
        ({**JSON, "content-encoding": "gzip"}, 415),
        ({"content-type": "application/json; charset=latin-1"}, 415),
        ({"content-type": "Application/JSON; charset=UTF-8"}, 200),
    ):
        answer = await client.post(INFER_PATH, content=write_json(QUESTION), headers=headers)
        assert answer.status_code == code, headers


async def test_http_body_must_have_a_length_within_the_limit(client: httpx.AsyncClient):
    async def write() -> AsyncIterator[bytes]:
        yield write_json(QUESTION)

    assert (await client.post(INFER_PATH, content=write(), headers=JSON)).status_code == 411
    for path, size in ((INFER_PATH, MAX_QUESTION_BYTES), (BATCH_PATH, MAX_BATCH_BYTES)):
        assert (await client.post(path, content=b"{}".ljust(size), headers=JSON)).status_code != 413
        assert (await client.post(path, content=b"{}".ljust(size + 1), headers=JSON)).status_code == 413


async def test_unknown_http_paths_and_methods_are_rejected(client: httpx.AsyncClient):
    for method, path, code in (
        ("GET", HEALTH_PATH, 200),
        ("GET", f"{HEALTH_PATH}/", 404),
        ("GET", INFER_PATH, 405),
        ("OPTIONS", INFER_PATH, 405),
        ("GET", "/", 404),
        ("GET", "/../../etc/passwd", 404),
        ("POST", "/tensor_reshape.v1.ReshapeService/Reshape", 404),
    ):
        answer = await client.request(method, path)
        assert (answer.status_code, answer.headers["content-type"]) == (code, "application/json"), (method, path)
        assert code == 200 or answer.json()["code"]


async def test_http_health_check_returns_503_unless_the_server_is_serving():
    transport = httpx.ASGITransport(build_app([build_health_route(lambda: False)]))
    async with httpx.AsyncClient(transport=transport, base_url="http://anything") as client:
        answer = await client.get(HEALTH_PATH)
    assert (answer.status_code, answer.json()) == (503, {"status": "NOT_SERVING"})


async def test_http_requests_with_a_foreign_host_header_are_rejected(client: httpx.AsyncClient):
    own = ["localhost", "LOCALHOST:1", "127.0.0.1:8080", "[::1]", "[::1]:8080"]
    others = ["evil.example", "localhost.evil.example", "127.0.0.1.evil.example:80", "", "[::1"]
    codes = {host: (await client.get(HEALTH_PATH, headers={"host": host})).status_code for host in own + others}
    assert codes == {**dict.fromkeys(own, 200), **dict.fromkeys(others, 421)}


async def test_http_requests_with_a_foreign_origin_header_are_rejected(client: httpx.AsyncClient):
    for origin, code in (
        ("http://localhost:8080", 200),
        ("http://evil.example", 403),
        ("http://localhost:8080.evil.example", 403),
        ("null", 403),
        ("http://localhost:1", 403),
    ):
        answer = await client.post(INFER_PATH, json=QUESTION, headers={"origin": origin})
        assert answer.status_code == code, origin
        assert not any(name.startswith("access-control") for name in answer.headers)


async def test_http_responses_have_nosniff_and_content_security_policy_headers(client: httpx.AsyncClient):
    for path in (HEALTH_PATH, "/nothing", INFER_PATH):
        headers = (await client.get(path)).headers
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["content-security-policy"].startswith("default-src 'none'")


async def test_http_app_logs_exceptions_without_sending_their_text(caplog: pytest.LogCaptureFixture):
    async def fail(*_: object, **__: object) -> None:
        message = "secret"
        raise ValueError(message)

    transport = httpx.ASGITransport(build_app(build_method_routes(fail, METHODS)), raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://anything") as client:
        answer = await client.post(INFER_PATH, json=QUESTION)
    assert (answer.status_code, answer.json()["code"]) == (500, 13)
    assert "secret" not in answer.text
    assert [record.message for record in caplog.records] == ["bug"]
