"""The unary methods of the API over HTTP, as JSON, as protobuf messages, and over Connect."""

import base64
import json
import sys
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from google.protobuf import json_format
from google.protobuf.message import Message
from google.rpc.error_details_pb2 import ErrorInfo
from hypothesis import given

from http_calls import ANSWER, BATCH_PATH, INFER_PATH, QUESTION, Reply, post, request, write_batch, write_json
from http_servers import CONFIG, SlowService, run_http
from hypothesis_profiles import examples
from strategies import LAWFUL_REQUESTS, REQUESTS
from tensor_reshape.rules.errors import LimitError, Reason, ReshapeError
from tensor_reshape.rules.limits import DEFAULT_LIMITS
from tensor_reshape.rules.questions import ShapeRequest
from tensor_reshape.server.http.asgi import HttpRequest
from tensor_reshape.server.http.transcoder import (
    LIGHT_JSON_BYTES,
    MAX_BATCH_BODY_BYTES,
    MAX_JSON_BYTES,
    MAX_JSON_PARTS,
    MAX_QUERY_BODY_BYTES,
    Rpc,
    build_rpcs,
    decode_json,
)
from tensor_reshape.server.service.methods import ReshapeService
from tensor_reshape.server.telemetry.metrics import list_methods
from tensor_reshape.v1 import reshape_pb2, tensor_pb2
from tensor_reshape.wire.inference import build_infer_request
from tensor_reshape.wire.methods import SERVER_INFO

CONNECT = {"connect-protocol-version": "1"}
PROTO = {"content-type": "application/proto"}
WRONG = {**QUESTION, "shape": {"items": [-2]}}
SERVICE = ReshapeService(DEFAULT_LIMITS)
STATIC, DYNAMIC, RESHAPE = (
    f"/tensor_reshape.v1.ReshapeService/{name}" for name in ("StaticReshape", "DynamicReshape", "Reshape")
)
RPCS = build_rpcs(SERVICE.methods.unary, 1 << 20)


def build_tensor(kind: "tensor_pb2.DataType.ValueType", dims: list[int], content: bytes) -> tensor_pb2.Tensor:
    return tensor_pb2.Tensor(data_type=kind, dims=dims, data=content)


DATA = build_tensor(tensor_pb2.DATA_TYPE_F32, [2, 3], bytes(range(24)))
TARGET = build_tensor(tensor_pb2.DATA_TYPE_I32, [1], np.array([-1], "<i4").tobytes())
REQUESTED: dict[str, tuple[Message, type[Message]]] = {
    STATIC: (
        reshape_pb2.StaticReshapeRequest(shape=reshape_pb2.TargetShape(items=[-1]), special_zero=False, data=DATA),
        reshape_pb2.StaticReshapeResponse,
    ),
    DYNAMIC: (
        reshape_pb2.DynamicReshapeRequest(shape=TARGET, special_zero=False, data=DATA),
        reshape_pb2.DynamicReshapeResponse,
    ),
    RESHAPE: (
        reshape_pb2.ReshapeRequest(shape=TARGET, special_zero=False, data=DATA),
        reshape_pb2.ReshapeResponse,
    ),
    INFER_PATH: (json_format.ParseDict(QUESTION, reshape_pb2.InferShapeRequest()), reshape_pb2.InferShapeResponse),
    BATCH_PATH: (
        json_format.ParseDict({"items": [{"question": QUESTION}]}, reshape_pb2.BatchInferShapeRequest()),
        reshape_pb2.BatchInferShapeResponse,
    ),
    SERVER_INFO.path: (reshape_pb2.ServerInfoRequest(), reshape_pb2.ServerInfoResponse),
}
"""A request for each unary method, with the class of the response."""


def post_connect(address: str, body: bytes = b"{}", path: str = INFER_PATH, **headers: str) -> Reply:
    named = {"content-type": "application/json", **CONNECT}
    named |= {name.replace("_", "-"): value for name, value in headers.items()}
    return request(address, "POST", path, body, named)


def find_rpc(path: str = INFER_PATH) -> Rpc:
    return RPCS[path]


def respond(body: bytes, path: str = INFER_PATH, *, is_json: bool = True) -> bytes:
    """Returns the response to a body without a server."""
    reply = find_rpc(path).respond(is_json, body, lambda: False)
    assert reply is not None
    return bytes(reply.parts[0])


def infer(body: bytes, path: str = INFER_PATH) -> object:
    """Returns the response to JSON without a server."""
    return json.loads(respond(body, path))


def reject(path: str, body: bytes) -> ReshapeError:
    with pytest.raises(ReshapeError) as caught:
        pytest.fail(f"{body[:80]!r} is answered with {infer(body, path)}")
    return caught.value


def test_every_unary_method_has_a_request_here():
    assert {path for path in list_methods() if path.startswith("/tensor_reshape.v1.")} - REQUESTED.keys() == {
        "/tensor_reshape.v1.ReshapeService/StreamReshape"
    }


@pytest.mark.parametrize("path", REQUESTED)
def test_method_answers_json_and_protobuf_alike(address: str, path: str):
    message, response = REQUESTED[path]
    encoded = request(address, "POST", path, message.SerializeToString(), PROTO)
    plain = post(address, json_format.MessageToDict(message), path)
    assert (encoded.code, encoded.headers["content-type"]) == (200, "application/proto")
    assert (plain.code, plain.headers["content-type"]) == (200, "application/json")
    assert json_format.ParseDict(plain.document, response()) == response.FromString(encoded.content)


def test_connect_answers_json_and_protobuf(address: str):
    assert post_connect(address, write_json(QUESTION)).document == ANSWER
    message, response = REQUESTED[INFER_PATH]
    reply = request(address, "POST", INFER_PATH, message.SerializeToString(), {**CONNECT, **PROTO})
    assert reply.headers["content-type"] == "application/proto"
    assert json_format.MessageToDict(response.FromString(reply.content)) == ANSWER


def test_error_is_a_status_with_details(address: str):
    reply = post(address, WRONG, headers={"x-request-id": "mine"})
    assert (reply.code, reply.document["code"], reply.headers["x-request-id"]) == (400, 3, "mine")
    details = {detail["@type"].rpartition(".")[2]: detail for detail in reply.document["details"]}
    assert details["ErrorInfo"]["reason"] == Reason.INVALID_TARGET_VALUE
    assert details["BadRequest"]["fieldViolations"][0]["field"] == "shape[0]"


def test_error_for_a_protobuf_request_is_json(address: str):
    reply = request(address, "POST", INFER_PATH, b"\xff", PROTO)
    assert (reply.code, reply.reason) == (400, Reason.MESSAGE_MALFORMED)


def test_connect_error_has_a_code_and_encoded_details(address: str):
    reply = post_connect(address, write_json(WRONG), x_request_id="mine")
    assert (reply.code, reply.document["code"]) == (400, "invalid_argument")
    assert reply.headers["x-request-id"] == "mine"
    first = reply.document["details"][0]
    assert (first["type"], first["debug"]["reason"]) == ("google.rpc.ErrorInfo", Reason.INVALID_TARGET_VALUE)
    assert "=" not in first["value"]
    info = ErrorInfo.FromString(base64.b64decode(first["value"] + "=="))
    assert (info.reason, info.metadata["value"]) == (Reason.INVALID_TARGET_VALUE, "-2")


@pytest.mark.parametrize(
    ("headers", "status", "code"),
    [
        ({"connect_protocol_version": "2"}, 400, "invalid_argument"),
        ({"content_type": "text/plain"}, 415, "invalid_argument"),
        ({"content_type": "application/connect+json"}, 415, "invalid_argument"),
        ({"content_type": "application/connect+proto"}, 415, "invalid_argument"),
        ({"content_encoding": "gzip"}, 415, "unimplemented"),
        ({"connect_timeout_ms": "1s"}, 400, "invalid_argument"),
        ({"connect_timeout_ms": "-1"}, 400, "invalid_argument"),
        ({"connect_timeout_ms": "12345678901"}, 400, "invalid_argument"),
        ({"host": "evil.example"}, 421, "permission_denied"),
        ({"origin": "http://evil.example"}, 403, "permission_denied"),
    ],
    ids=lambda value: " ".join(value.values()) if isinstance(value, dict) else "",
)
def test_unusable_connect_headers_get_a_connect_error(address: str, headers: dict[str, Any], status: int, code: str):
    reply = post_connect(address, **headers)
    assert (reply.code, reply.document["code"]) == (status, code)


def test_unknown_connect_method_is_unimplemented(address: str):
    reply = post_connect(address, path=INFER_PATH.replace("InferShape", "Nothing"))
    assert (reply.code, reply.document["code"]) == (404, "unimplemented")


def test_connect_timeout_is_the_deadline_of_the_call():
    service = SlowService()
    with run_http(service=service) as running:
        reply = post_connect(running.address, write_batch(1), BATCH_PATH, connect_timeout_ms="50")
        assert (reply.code, reply.document["code"]) == (504, "deadline_exceeded")
        service.await_stop()


def test_connect_timeout_may_be_longer_than_the_call(address: str):
    assert post_connect(address, write_json(QUESTION), connect_timeout_ms="9999999999").code == 200


@pytest.mark.parametrize(
    ("headers", "code"),
    [
        ({"content-type": "text/plain"}, 415),
        ({"content-type": "application/x-www-form-urlencoded"}, 415),
        ({}, 415),
        ({"content-type": "application/json", "content-encoding": "gzip"}, 415),
        ({"content-type": "application/json", "content-encoding": "identity"}, 200),
        ({"content-type": "application/json; charset=latin-1"}, 415),
        ({"content-type": 'application/json;charset="utf-16"'}, 415),
        ({"content-type": "Application/JSON; charset=UTF-8"}, 200),
        ({"content-type": 'application/json;charset="utf8"'}, 200),
    ],
    ids=lambda value: ", ".join(value.values()) if isinstance(value, dict) else "",
)
def test_body_must_be_json_or_protobuf_without_compression(address: str, headers: dict[str, str], code: int):
    assert request(address, "POST", INFER_PATH, write_json(QUESTION), headers).code == code


@pytest.mark.parametrize(("path", "limit"), [(INFER_PATH, MAX_QUERY_BODY_BYTES), (BATCH_PATH, MAX_BATCH_BODY_BYTES)])
def test_query_has_its_own_size_limit(address: str, path: str, limit: int):
    json_type = {"content-type": "application/json"}
    assert request(address, "POST", path, b"{}".ljust(limit), json_type).code != 413
    reply = request(address, "POST", path, b"{}".ljust(limit + 1), json_type)
    assert (reply.code, reply.reason) == (413, Reason.MESSAGE_TOO_LARGE)
    assert f"the limit is {limit}" in reply.document["message"]


def test_message_with_a_tensor_has_the_size_limit_of_the_server():
    with run_http(replace(CONFIG, max_message_bytes=1 << 20)) as running:
        for size, code in ((1 << 20, 429), ((1 << 20) + 1, 413)):  # the header of the first message is too large
            assert request(running.address, "POST", RESHAPE, bytes(size), PROTO).code == code


def test_json_with_a_tensor_may_be_longer_by_its_base64():
    prepared = find_rpc(RESHAPE).prepare(
        HttpRequest({"method": "POST", "path": "", "headers": [(b"content-type", b"application/json")]}, None),  # type: ignore[arg-type] # is not read
    )
    assert prepared.max_bytes > len(base64.b64encode(bytes(1 << 20)))


def test_long_json_with_many_parts_is_rejected_before_it_is_parsed(address: str):
    body = b'{"items":[' + b"," * (MAX_JSON_PARTS + 1)
    reply = request(address, "POST", RESHAPE, body.ljust(MAX_JSON_BYTES + 1), {"content-type": "application/json"})
    assert (reply.code, reply.reason) == (413, Reason.MESSAGE_TOO_LARGE)


def test_parts_of_json_up_to_the_limit_are_not_counted():
    many = b"," * (MAX_JSON_PARTS + 1)
    assert decode_json(many.ljust(MAX_JSON_BYTES))
    with pytest.raises(LimitError, match="commas and brackets"):
        decode_json(many.ljust(MAX_JSON_BYTES + 1))


def test_json_that_is_not_utf8_is_rejected_with_its_position(address: str):
    reply = request(address, "POST", INFER_PATH, b'{"a":"\xff"}', {"content-type": "application/json"})
    assert (reply.code, reply.reason) == (400, Reason.MESSAGE_MALFORMED)
    assert "not UTF-8 at byte 6" in reply.document["message"]


def test_json_query_has_the_same_result_on_event_loop_and_threads():
    body = write_json(QUESTION)
    assert find_rpc().respond(True, body, None) == find_rpc().respond(True, body, lambda: False)


def test_long_json_is_not_parsed_on_the_event_loop():
    assert find_rpc().respond(True, write_json(QUESTION).ljust(LIGHT_JSON_BYTES), None) is not None
    assert find_rpc().respond(True, write_json(QUESTION).ljust(LIGHT_JSON_BYTES + 1), None) is None


def describe(message: bytes, *, is_json: bool) -> object:
    """Returns the result of a query, or the parts of its rejection."""
    try:
        part = respond(message, is_json=is_json)
    except ReshapeError as rejection:
        return rejection.reason, rejection.field, rejection.message, rejection.metadata
    if is_json:
        return json_format.Parse(part, reshape_pb2.InferShapeResponse())
    return reshape_pb2.InferShapeResponse.FromString(part)


@examples(60)
@given(LAWFUL_REQUESTS | REQUESTS)
def test_json_response_equals_the_converted_protobuf_response(asked: ShapeRequest):
    message = build_infer_request(asked)
    text = json_format.MessageToJson(message).encode()
    assert describe(text, is_json=True) == describe(message.SerializeToString(), is_json=False)


def test_repeated_json_query_is_served_from_the_cache():
    service = ReshapeService(DEFAULT_LIMITS)
    rpcs = build_rpcs(service.methods.unary, 1 << 20)
    replies = [rpcs[INFER_PATH].respond(True, write_json(QUESTION), None) for _ in range(3)]
    assert replies[0] == replies[1] == replies[2]
    assert (service.lookups.misses, service.lookups.hits) == (1, 2)


def test_json_batch_has_a_result_or_rejection_per_query():
    wrong = {**QUESTION, "operation": "OPERATION_UNSPECIFIED"}
    body = write_json({"items": [{"question": QUESTION}, {"question": wrong}]})
    (answer, rejection) = infer(body, BATCH_PATH)["results"]  # type: ignore[index]
    assert answer == {"answer": ANSWER}
    assert rejection["rejection"]["reason"] == Reason.OPERATION_UNSPECIFIED


def test_empty_json_batch_has_no_results():
    for body in (b"{}", b' {"items" : [ ] } ', b'{"items":null}', b'\n{\t"items"\r:[\n]}\n'):
        assert infer(body, BATCH_PATH) == {}, body


def test_malformed_json_batch_is_rejected():
    for body in (
        b'{"items":[],}', b'{"items":[{},]}', b'{"items":[{} {}]}', b'{"items":[{},{}', b'{"items":[{},{}]',
        b'{"items":[{},{}]}x', b'{"items":[,{}]}', b'{"items":[], "items":[]}', b'{"items":[{"a":1,"a":1}]}',
        b'{"items":[12]}', b'{"items":[[]]}', b'{"items":{}}', b'{"x":[]}', b'{"items":[{}],"x":1}',
    ):  # fmt: skip
        assert reject(BATCH_PATH, body).reason is Reason.MESSAGE_MALFORMED


def test_malformed_json_query_is_rejected():
    deep: dict[str, object] = {}
    for _ in range(sys.getrecursionlimit() // 2):
        deep = {"data": deep}
    for body in (
        b"", b"[]", b"null", b'"', b"\xff", b"{", b'{"operation":1,"operation":1}', b"[" * MAX_QUERY_BODY_BYTES,
        b'{"data":' * 8000, b'{"operation":' + b"9" * 60000 + b"}", write_json(deep),
    ):  # fmt: skip
        assert reject(INFER_PATH, body).reason is Reason.MESSAGE_MALFORMED


ITEM = '{"question":{"shape":{"items":[1,%s]}}}'
DIM = '{"question":{"shape":{"partial":[{},%s]}}}'
ITEMS, PLACE = "question.shape.items", "question.shape.partial[1]"
INVALID_ITEMS = [
    ('{"a":1}', "", 'has no field named "a"'),
    ("5", "", "is not a JSON object"),
    ('{"question":[1]}', "question", "is not a JSON object"),
    ('{"question":{"data":{"shape":[]}}}', "question.data.shape", "is not a JSON object"),
    ('{"question":{"shape":{"partial":[{},0]}}}', "question.shape.partial[1]", "is not a JSON object"),
    ('{"question":{"operation":"X"}}', "question.operation", "Invalid enum value X"),
    ('{"question":{"operation":1e99}}', "question.operation", "is 1e+99, not the name of a value"),
    ('{"question":{"operation":1e400}}', "question.operation", "is Infinity, not the name of a value"),
    ('{"question":{"operation":4294967299}}', "question.operation", "is 4294967299, not the name of a value"),
    ('{"question":{"operation":true}}', "question.operation", "is true, not the name of a value"),
    ('{"question":{"operation":"\\ud800"}}', "question.operation", "not the name of a value"),
    ('{"question":{"specialZero":"yes"}}', "question.specialZero", 'is "yes", not true or false'),
    ('{"dataFrom":1,"data_from":2}', "data_from", "is given twice"),
    (ITEM % '"x"', f"{ITEMS}[1]", 'is "x", not a whole number'),
    (ITEM % "1.5", f"{ITEMS}[1]", "is 1.5, not a whole number"),
    (ITEM % "true", f"{ITEMS}[1]", "is true, not a whole number"),
    (ITEM % '{"value":1}', f"{ITEMS}[1]", "not a whole number"),
    ('{"dataFrom":4294967296}', "dataFrom", "is 4294967296, not a whole number from -2147483648 to 2147483647"),
    ('{"question":{"shape":[-1]}}', "question.shape", "is not a JSON object"),
    (DIM % '{"interval":{},"symbol":{}}', PLACE, 'multiple "kind" oneof'),
    (DIM % '{"val":1}', PLACE, 'no field named "val"'),
    (DIM % "null", PLACE, "is not a JSON object"),
    (DIM % '{"symbol":{"name":5}}', f"{PLACE}.symbol.name", "is 5, not valid text"),
    (DIM % '{"symbol":{"name":"\\ud800"}}', f"{PLACE}.symbol.name", "not valid text"),
    (f'{{"{"x" * 60_000}":1}}', "", "has no field named"),
]


@pytest.mark.parametrize(("item", "field", "text"), INVALID_ITEMS, ids=range(len(INVALID_ITEMS)))
def test_json_batch_item_error_has_index_field_and_value(item: str, field: str, text: str):
    rejection = reject(BATCH_PATH, f'{{"items":[{{}},{item}]}}'.encode())
    assert (rejection.reason, rejection.field) == (Reason.MESSAGE_MALFORMED, f"items[1].{field}".rstrip("."))
    assert rejection.message.startswith(rejection.field)
    assert text in rejection.message
    assert len(rejection.message) < 300


def test_json_query_error_names_the_value_and_its_field():
    for item in ("1.5", '"x"', "9223372036854775808"):
        rejection = reject(INFER_PATH, write_json(QUESTION).replace(b'["-1"]', b"[1,%b]" % item.encode()))
        assert rejection.field == "shape.items[1]"
        assert rejection.message.startswith(rejection.field)


def test_json_batch_stops_when_its_call_is_over():
    with pytest.raises(LimitError) as caught:
        find_rpc(BATCH_PATH).respond(True, write_batch(100), lambda: True)
    assert caught.value.reason is Reason.STALLED
