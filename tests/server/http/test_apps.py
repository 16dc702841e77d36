"""What each path of the application answers, and to whom: with an asker that has no server beside."""

import json
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from json_bodies import ANSWER, BATCH_PATH, INFER_PATH, QUESTION, write_json
from tensor_reshape.rules.errors import Reason
from tensor_reshape.rules.limits import DEFAULT_LIMITS
from tensor_reshape.server.http.apps import build_app
from tensor_reshape.server.http.askers import ask_here
from tensor_reshape.server.http.descriptions import HEALTH_PATH
from tensor_reshape.server.http.json_methods import MAX_BATCH_BYTES, MAX_QUESTION_BYTES, build_json_methods
from tensor_reshape.server.http.requests import LOCAL_HOSTS
from tensor_reshape.server.service.methods import ReshapeService

METHODS = build_json_methods(ReshapeService(DEFAULT_LIMITS).methods)
JSON = {"content-type": "application/json"}


@pytest.fixture
async def client() -> AsyncIterator[httpx.AsyncClient]:
    transport = httpx.ASGITransport(build_app(ask_here, METHODS, hosts=LOCAL_HOSTS))
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost:8080") as client:
        yield client


def read_details(answer: httpx.Response) -> dict[str, dict[str, Any]]:
    """Returns the details of a refusal by the ends of their types."""
    return {detail["@type"].rpartition(".")[2]: detail for detail in answer.json()["details"]}


async def test_a_question_is_answered(client: httpx.AsyncClient):
    answer = await client.post(INFER_PATH, json=QUESTION)
    assert (answer.status_code, answer.json()) == (200, ANSWER)


async def test_a_batch_is_answered(client: httpx.AsyncClient):
    answer = await client.post(BATCH_PATH, json={"items": [{"question": QUESTION}]})
    assert (answer.status_code, answer.json()) == (200, {"results": [{"answer": ANSWER}]})


async def test_a_refusal_is_a_status_with_its_details(client: httpx.AsyncClient):
    answer = await client.post(INFER_PATH, json={**QUESTION, "shape": {"dims": [{"value": -2}]}})
    assert (answer.status_code, answer.json()["code"]) == (400, 3)
    details = read_details(answer)
    assert details["ErrorInfo"]["reason"] == Reason.INVALID_TARGET_VALUE
    assert details["BadRequest"]["fieldViolations"][0]["field"] == "shape[0]"


async def test_a_request_has_the_id_that_its_caller_gave_it(client: httpx.AsyncClient):
    answer = await client.post(INFER_PATH, json={}, headers={"x-request-id": "mine"})
    assert answer.headers["x-request-id"] == "mine"


@pytest.mark.parametrize(
    ("headers", "code"),
    [
        ({"content-type": "text/plain"}, 415),
        ({"content-type": "application/x-www-form-urlencoded"}, 415),
        ({}, 415),
        ({**JSON, "content-encoding": "gzip"}, 415),
        ({"content-type": "application/json; charset=latin-1"}, 415),
        ({"content-type": "Application/JSON; charset=UTF-8"}, 200),
    ],
)
async def test_a_body_is_json(client: httpx.AsyncClient, headers: dict[str, str], code: int):
    answer = await client.post(INFER_PATH, content=write_json(QUESTION), headers=headers)
    assert answer.status_code == code


@pytest.mark.parametrize(("path", "size"), [(INFER_PATH, MAX_QUESTION_BYTES), (BATCH_PATH, MAX_BATCH_BYTES)])
async def test_a_body_that_is_too_long_is_not_read(client: httpx.AsyncClient, path: str, size: int):
    assert (await client.post(path, content=b"{}".ljust(size), headers=JSON)).status_code != 413
    assert (await client.post(path, content=b"{}".ljust(size + 1), headers=JSON)).status_code == 413


async def test_a_body_says_how_long_it_is(client: httpx.AsyncClient):
    async def write() -> AsyncIterator[bytes]:
        yield write_json(QUESTION)

    assert (await client.post(INFER_PATH, content=write(), headers=JSON)).status_code == 411


@pytest.mark.parametrize(
    ("method", "path", "code"),
    [
        ("GET", HEALTH_PATH, 200),
        ("GET", f"{HEALTH_PATH}/", 404),
        ("GET", INFER_PATH, 405),
        ("OPTIONS", INFER_PATH, 405),
        ("GET", "/", 404),
        ("GET", "/../../etc/passwd", 404),
        ("POST", "/tensor_reshape.v1.ReshapeService/Reshape", 404),
    ],
)
async def test_there_is_nothing_but_what_is_served(client: httpx.AsyncClient, method: str, path: str, code: int):
    answer = await client.request(method, path)
    assert answer.status_code == code
    assert answer.headers["content-type"] == "application/json"
    assert code == 200 or answer.json()["code"]


async def test_health_says_when_the_server_is_to_be_sent_nothing():
    transport = httpx.ASGITransport(build_app(ask_here, METHODS, is_serving=lambda: False))
    async with httpx.AsyncClient(transport=transport, base_url="http://anything") as client:
        answer = await client.get(HEALTH_PATH)
    assert (answer.status_code, answer.json()) == (503, {"status": "NOT_SERVING"})


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:1", "127.0.0.1:8080", "[::1]", "[::1]:8080"])
async def test_a_server_of_this_machine_is_known_by_its_names(client: httpx.AsyncClient, host: str):
    assert (await client.get(HEALTH_PATH, headers={"host": host})).status_code == 200


@pytest.mark.parametrize("host", ["evil.example", "localhost.evil.example", "127.0.0.1.evil.example:80", "", "[::1"])
async def test_and_by_no_name_that_somebody_else_made_lead_here(client: httpx.AsyncClient, host: str):
    assert (await client.get(HEALTH_PATH, headers={"host": host})).status_code == 421


@pytest.mark.parametrize(
    ("origin", "code"),
    [("http://localhost:8080", 200), ("http://evil.example", 403), ("null", 403), ("http://localhost:1", 403)],
)
async def test_no_page_of_another_origin_is_let_in(client: httpx.AsyncClient, origin: str, code: int):
    answer = await client.post(INFER_PATH, json=QUESTION, headers={"origin": origin})
    assert answer.status_code == code
    assert not any(name.startswith("access-control") for name in answer.headers)


@pytest.mark.parametrize("path", [HEALTH_PATH, "/nothing", INFER_PATH])
async def test_no_answer_is_taken_for_a_page_or_a_script(client: httpx.AsyncClient, path: str):
    headers = (await client.get(path)).headers
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["content-security-policy"].startswith("default-src 'none'")


async def test_a_bug_is_told_to_nobody_but_the_log(caplog: pytest.LogCaptureFixture):
    async def fail(*_: object) -> None:
        message = "secret"
        raise ValueError(message)

    transport = httpx.ASGITransport(build_app(fail, METHODS))
    async with httpx.AsyncClient(transport=transport, base_url="http://anything") as client:
        answer = await client.post(INFER_PATH, json=QUESTION)
    assert (answer.status_code, json.loads(answer.text)["code"]) == (500, 13)
    assert "secret" not in answer.text
    assert [record.message for record in caplog.records] == ["bug"]
