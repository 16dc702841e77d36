"""Methods with JSON messages have the same results as the methods that they call."""

import json
import sys
from collections.abc import Callable, Mapping

import pytest
from google.protobuf import json_format
from hypothesis import given

from dim_strategies import LAWFUL_REQUESTS, REQUESTS
from hypothesis_profiles import examples
from json_bodies import ANSWER, BATCH_PATH, INFER_PATH, QUESTION, write_batch, write_json
from tensor_reshape.rules.errors import InvalidRequestError, LimitError, Reason, ReshapeError
from tensor_reshape.rules.limits import DEFAULT_LIMITS, Limits
from tensor_reshape.rules.questions import ShapeRequest
from tensor_reshape.server.http.json_methods import MAX_QUESTION_BYTES, build_json_methods
from tensor_reshape.server.service.method_tables import Method
from tensor_reshape.server.service.methods import ReshapeService
from tensor_reshape.v1 import reshape_pb2
from tensor_reshape.wire.inference import build_infer_request

SERVED = {method.name: method for method in ReshapeService(DEFAULT_LIMITS).methods.unary}
METHODS = {method.name: method for method in build_json_methods(ReshapeService(DEFAULT_LIMITS))}


def infer(body: bytes, path: str = INFER_PATH) -> object:
    return json.loads(METHODS[path].respond(body, lambda: False))


def reject(path: str, body: bytes) -> ReshapeError:
    with pytest.raises(ReshapeError) as caught:
        pytest.fail(f"{body[:80]!r} is answered with {infer(body, path)}")
    return caught.value


def read_json_answer(body: bytes) -> reshape_pb2.InferShapeResponse:
    return json_format.Parse(body, reshape_pb2.InferShapeResponse())


def describe(
    methods: Mapping[str, Method], message: bytes, read: Callable[[bytes], reshape_pb2.InferShapeResponse]
) -> object:
    """Returns the result of a query, or the parts of its rejection."""
    try:
        return read(methods[INFER_PATH].respond(message, lambda: False))
    except ReshapeError as rejection:
        return rejection.reason, rejection.field, rejection.message, rejection.metadata


def test_json_query_result_is_equal_on_event_loop_and_threads():
    body = write_json(QUESTION)
    assert METHODS[INFER_PATH].respond_light(body) == METHODS[INFER_PATH].respond(body, lambda: False)
    assert infer(body) == ANSWER


@examples(60)
@given(LAWFUL_REQUESTS | REQUESTS)
def test_json_response_equals_the_converted_protobuf_response(asked: ShapeRequest):
    request = build_infer_request(asked)
    found = describe(METHODS, json_format.MessageToJson(request).encode(), read_json_answer)
    assert found == describe(SERVED, request.SerializeToString(), reshape_pb2.InferShapeResponse.FromString)


def test_repeated_json_query_is_served_from_the_cache():
    service = ReshapeService(DEFAULT_LIMITS)
    methods = {method.name: method for method in build_json_methods(service)}
    answers = {methods[INFER_PATH].respond_light(write_json(QUESTION)) for _ in range(3)}
    assert (len(answers), service.lookups.misses, service.lookups.hits) == (1, 1, 2)


def test_json_batch_has_a_result_or_rejection_per_query():
    wrong = {**QUESTION, "operation": "OPERATION_UNSPECIFIED"}
    body = write_json({"items": [{"question": QUESTION}, {"question": wrong}]})
    (answer, rejection) = infer(body, BATCH_PATH)["results"]  # type: ignore[index]
    assert answer == {"answer": ANSWER}
    assert rejection["rejection"]["reason"] == Reason.OPERATION_UNSPECIFIED


def test_json_batch_may_exceed_the_size_limit_of_one_query():
    body = write_batch(1000)
    assert len(body) > 2 * MAX_QUESTION_BYTES
    assert infer(body, BATCH_PATH) == {"results": [{"answer": ANSWER}] * 1000}


def test_empty_json_batch_has_no_results():
    for body in (b"{}", b' {"items" : [ ] } ', b'{"items":null}', b'{"items":[]}', b'\n{\t"items"\r:[\n]}\n'):
        assert infer(body, BATCH_PATH) == {"results": []}, body


def test_malformed_json_batch_is_rejected():
    for body in (
        b'{"items":[],}', b'{"items":[{},]}', b'{"items":[{} {}]}', b'{"items":[{},{}', b'{"items":[{},{}]',
        b'{"items":[{},{}]}x', b'{"items":[,{}]}', b'{"items":[], "items":[]}', b'{"items":[{"a":1,"a":1}]}',
        b'{"items":[12]}', b'{"items":[[]]}', b'{"items":{}}', b'{"x":[]}', b'{"items":[{}],"x":1}',
    ):  # fmt: skip
        assert reject(BATCH_PATH, body).reason is Reason.MESSAGE_MALFORMED


def test_json_batch_with_too_many_or_oversized_items_is_rejected():
    assert reject(BATCH_PATH, b'{"items":[' + b"{}," * 65536 + b"{}]}").reason is Reason.BATCH_TOO_LARGE
    rejection = reject(BATCH_PATH, b'{"items":[{"question":{}},{' + b" " * MAX_QUESTION_BYTES + b"}]}")
    assert (rejection.reason, rejection.field) == (Reason.MESSAGE_MALFORMED, "items[1]")
    assert "more than 65536 characters" in rejection.message


def test_malformed_json_query_is_rejected():
    deep: dict[str, object] = {}
    for _ in range(sys.getrecursionlimit() // 2):
        deep = {"data": deep}
    for body in (
        b"", b"[]", b"null", b'"', b"\xff", b"{", b'{"operation":1,"operation":1}', b"[" * MAX_QUESTION_BYTES,
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
    ('{"dataFrom":2147483648}', "dataFrom", "out of range: 2147483648"),
    (ITEM % '"x"', f"{ITEMS}[1]", 'is "x", not a whole number'),
    (ITEM % "1.5", f"{ITEMS}[1]", "is 1.5, not a whole number"),
    (ITEM % "true", f"{ITEMS}[1]", "is true, not a whole number"),
    (ITEM % "1e30", ITEMS, "out of range: 1000000000"),
    (ITEM % "9223372036854775808", ITEMS, "out of range: 9223372036854775808"),
    (ITEM % '{"value":1}', f"{ITEMS}[1]", 'is {"value": 1}, not a whole number'),
    ('{"question":{"shape":[-1]}}', "question.shape", "is not a JSON object"),
    (DIM % '{"interval":{},"symbol":{}}', PLACE, 'multiple "kind" oneof'),
    (DIM % '{"val":1}', PLACE, 'no field named "val"'),
    (DIM % "null", PLACE, "is not a JSON object"),
    (DIM % '{"symbol":{"name":5}}', f"{PLACE}.symbol.name", "is 5, not valid text"),
    (DIM % '{"symbol":{"name":"\\ud800"}}', f"{PLACE}.symbol.name", "not valid text"),
    (f'{{"{"x" * 60_000}":1}}', "", "has no field named"),
]


def test_json_batch_item_error_has_index_field_and_value():
    for item, field, text in INVALID_ITEMS:
        rejection = reject(BATCH_PATH, f'{{"items":[{{}},{item}]}}'.encode())
        assert (rejection.reason, rejection.field) == (Reason.MESSAGE_MALFORMED, f"items[1].{field}".rstrip(".")), item
        assert rejection.message.startswith(rejection.field), item
        assert text in rejection.message, item
        assert len(rejection.message) < 300, item


def test_json_query_error_names_the_value_and_its_field():
    for item, field in (("1.5", "shape.items[1]"), ('"x"', "shape.items[1]"), ("9223372036854775808", "shape.items")):
        question = write_json(QUESTION).replace(b'["-1"]', b"[1,%b]" % item.encode())
        rejection = reject(INFER_PATH, question)
        assert isinstance(rejection, InvalidRequestError)
        assert rejection.field == field
        assert rejection.message.startswith(field)


def test_json_results_above_the_response_limit_are_rejected():
    methods = {method.name: method for method in build_json_methods(ReshapeService(Limits(max_output_bytes=200)))}
    first, *others = json.loads(methods[BATCH_PATH].respond(write_batch(4), lambda: False))["results"]
    assert first == {"answer": ANSWER}
    assert others[-1]["rejection"]["reason"] == Reason.OUTPUT_TOO_LARGE


def test_json_batch_is_aborted_when_its_client_disconnects():
    with pytest.raises(LimitError) as caught:
        METHODS[BATCH_PATH].respond(write_batch(100), lambda: True)
    assert caught.value.reason is Reason.STALLED
