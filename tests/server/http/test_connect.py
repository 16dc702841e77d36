"""The Connect protocol, on the application without a server, and its deadlines."""

import asyncio
import base64
from collections.abc import AsyncIterator

import httpx
import pytest
from google.rpc.error_details_pb2 import ErrorInfo
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Send

from json_bodies import ANSWER, BATCH_PATH, INFER_PATH, QUESTION, write_json
from tensor_reshape.rules.errors import Reason, UnauthenticatedError
from tensor_reshape.rules.limits import DEFAULT_LIMITS
from tensor_reshape.server.calls.call_info import CallInfo
from tensor_reshape.server.calls.statuses import INTERNAL_ERROR, build_failure
from tensor_reshape.server.http.apps import build_app, build_method_routes
from tensor_reshape.server.http.connect import ConnectForm
from tensor_reshape.server.http.explorer.commands import serve_call
from tensor_reshape.server.http.json_methods import MAX_QUESTION_BYTES, build_json_methods
from tensor_reshape.server.http.requests import LOCAL_HOSTS
from tensor_reshape.server.http.responses import JSON_FORM, Form
from tensor_reshape.server.oip_rest.responses import LENGTH_HEADER, REASON_HEADER
from tensor_reshape.server.service.method_tables import Method
from tensor_reshape.server.service.methods import ReshapeService
from tensor_reshape.v1 import reshape_pb2
from tensor_reshape.wire.request_ids import REQUEST_ID_KEY

SERVICE = ReshapeService(DEFAULT_LIMITS)
JSON = {"connect-protocol-version": "1", "content-type": "application/json"}
PROTO = {**JSON, "content-type": "application/proto"}
WRONG = {**QUESTION, "shape": {"items": [-2]}}
ORIGIN = "https://page.example"


def open_client(app_serve: object = serve_call) -> httpx.AsyncClient:
    routes = build_method_routes(app_serve, build_json_methods(SERVICE), SERVICE.methods.unary)  # type: ignore[arg-type] # a function of the same form
    transport = httpx.ASGITransport(build_app(routes, LOCAL_HOSTS, (ORIGIN,)), raise_app_exceptions=False)
    return httpx.AsyncClient(transport=transport, base_url="http://localhost:8080")


@pytest.fixture
async def client() -> AsyncIterator[httpx.AsyncClient]:
    async with open_client() as client:
        yield client


async def test_connect_request_in_json_is_answered_in_json(client: httpx.AsyncClient):
    answer = await client.post(INFER_PATH, content=write_json(QUESTION), headers=JSON)
    assert (answer.status_code, answer.headers["content-type"], answer.json()) == (200, "application/json", ANSWER)


async def test_connect_request_in_protobuf_is_answered_in_protobuf(client: httpx.AsyncClient):
    request = reshape_pb2.InferShapeRequest(operation=reshape_pb2.OPERATION_RESHAPE, special_zero=False)
    request.data.shape.dims.append(6)
    request.shape.items.append(-1)
    answer = await client.post(INFER_PATH, content=request.SerializeToString(), headers=PROTO)
    assert (answer.status_code, answer.headers["content-type"]) == (200, "application/proto")
    response = reshape_pb2.InferShapeResponse.FromString(answer.content)
    assert response.shape.dims == [6]


async def test_connect_error_has_a_code_and_encoded_details(client: httpx.AsyncClient):
    answer = await client.post(INFER_PATH, content=write_json(WRONG), headers={**JSON, "x-request-id": "mine"})
    assert (answer.status_code, answer.headers["x-request-id"]) == (400, "mine")
    assert answer.json()["code"] == "invalid_argument"
    first = answer.json()["details"][0]
    assert (first["type"], first["debug"]["reason"]) == ("google.rpc.ErrorInfo", Reason.INVALID_TARGET_VALUE)
    info = ErrorInfo.FromString(base64.b64decode(first["value"] + "=="))
    assert (info.reason, info.metadata["value"]) == (Reason.INVALID_TARGET_VALUE, "-2")
    assert "=" not in first["value"]


@pytest.mark.parametrize(
    ("path", "headers", "size", "status", "code"),
    [
        (INFER_PATH, {"connect-protocol-version": "2"}, 2, 400, "invalid_argument"),
        (INFER_PATH, {"content-type": "text/plain"}, 2, 415, "invalid_argument"),
        (INFER_PATH, {"content-encoding": "gzip"}, 2, 501, "unimplemented"),
        (INFER_PATH, {"connect-timeout-ms": "1s"}, 2, 400, "invalid_argument"),
        (INFER_PATH, {"connect-timeout-ms": "12345678901"}, 2, 400, "invalid_argument"),
        (INFER_PATH, {}, MAX_QUESTION_BYTES + 1, 429, "resource_exhausted"),
        (INFER_PATH.replace("InferShape", "Reshape"), {}, 2, 404, "unimplemented"),
    ],
    ids=range(7),
)
async def test_unusable_connect_request_gets_a_connect_error(
    client: httpx.AsyncClient, path: str, headers: dict[str, str], size: int, status: int, code: str
):
    answer = await client.post(path, content=b"{}".ljust(size), headers={**JSON, **headers})
    assert (answer.status_code, answer.json()["code"]) == (status, code)


async def test_rejected_headers_get_a_connect_error(client: httpx.AsyncClient):
    for headers, status in (({"origin": "http://evil.example"}, 403), ({"host": "evil.example"}, 421)):
        answer = await client.post(INFER_PATH, content=b"{}", headers={**JSON, **headers})
        assert (answer.status_code, answer.json()["code"]) == (status, "permission_denied")


async def test_bug_gets_a_connect_error_without_its_text(caplog: pytest.LogCaptureFixture):
    async def fail(*_: object, **__: object) -> None:
        message = "secret"
        raise ValueError(message)

    async with open_client(fail) as client:
        answer = await client.post(INFER_PATH, content=b"{}", headers=JSON)
    assert (answer.status_code, answer.json()) == (500, {"code": "internal", "message": INTERNAL_ERROR})
    assert [record.message for record in caplog.records] == ["bug"]


def test_unauthenticated_connect_error_says_how_to_authenticate():
    failure = build_failure(UnauthenticatedError.of(Reason.UNAUTHENTICATED, "text"), CallInfo("/a/b", []))
    response = ConnectForm("application/proto").build_rejection(failure)
    assert (response.status_code, response.headers["www-authenticate"]) == (401, "Bearer")


async def test_protobuf_needs_the_connect_header(client: httpx.AsyncClient):
    answer = await client.post(INFER_PATH, content=b"", headers={"content-type": "application/proto"})
    assert (answer.status_code, answer.json()["code"]) == (415, 3)


async def test_connect_batch_is_answered(client: httpx.AsyncClient):
    body = write_json({"items": [{"question": QUESTION}]})
    answer = await client.post(BATCH_PATH, content=body, headers=JSON)
    assert answer.json() == {"results": [{"answer": ANSWER}]}


async def test_connect_call_ends_at_its_deadline():
    cancelled = asyncio.Event()

    async def wait(_method: Method, _request: Request, _send: Send, *, form: Form = JSON_FORM) -> None:
        del form
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    async with open_client(wait) as client:
        answer = await client.post(INFER_PATH, content=b"{}", headers={**JSON, "connect-timeout-ms": "1"})
    assert cancelled.is_set()
    assert (answer.status_code, answer.json()["code"]) == (504, "deadline_exceeded")


async def test_response_that_has_begun_is_not_replaced_at_the_deadline():
    async def begin(_method: Method, request: Request, send: Send, *, form: Form = JSON_FORM) -> None:
        del form
        await Response("begun")(request.scope, request.receive, send)
        await asyncio.Event().wait()

    async with open_client(begin) as client:
        answer = await client.post(INFER_PATH, content=b"{}", headers={**JSON, "connect-timeout-ms": "1"})
    assert (answer.status_code, answer.text) == (200, "begun")


async def test_page_of_an_allowed_origin_may_call(client: httpx.AsyncClient):
    wanted = "connect-protocol-version,content-type"
    asked = {"origin": ORIGIN, "access-control-request-method": "POST", "access-control-request-headers": wanted}
    allowed = await client.options(INFER_PATH, headers=asked)
    assert (allowed.status_code, allowed.headers["access-control-allow-origin"]) == (200, ORIGIN)
    answer = await client.post(INFER_PATH, content=write_json(QUESTION), headers={**JSON, "origin": ORIGIN})
    assert answer.headers["access-control-allow-origin"] == ORIGIN
    exposed = answer.headers["access-control-expose-headers"].split(", ")
    assert {REQUEST_ID_KEY, "retry-after", LENGTH_HEADER, REASON_HEADER} == {*exposed}
    assert answer.headers["vary"] == "Origin"


async def test_page_of_another_origin_may_not_call(client: httpx.AsyncClient):
    for origin in ("https://other.example", "null", "http://page.example"):
        asked = {"origin": origin, "access-control-request-method": "POST"}
        for answer in (
            await client.options(INFER_PATH, headers=asked),
            await client.post(INFER_PATH, content=write_json(QUESTION), headers={**JSON, "origin": origin}),
        ):
            assert answer.status_code == 403
            assert "access-control-allow-origin" not in answer.headers
