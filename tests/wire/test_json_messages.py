"""Messages as JSON. `server/http/test_transcoder` has the errors of malformed JSON."""

import json
import math
from typing import Any

import pytest
from google.protobuf import json_format
from hypothesis import given

from hypothesis_profiles import examples
from strategies import LAWFUL_REQUESTS
from tensor_reshape.rules.dims import name_dim
from tensor_reshape.rules.errors import InvalidRequestError, Reason
from tensor_reshape.rules.inference import answer_question
from tensor_reshape.rules.operations import STATIC_RESHAPE
from tensor_reshape.rules.questions import Question, ShapeRequest
from tensor_reshape.server.oip.messages import find_class
from tensor_reshape.v1 import reshape_pb2, tensor_pb2
from tensor_reshape.wire.inference import build_infer_request, build_infer_response
from tensor_reshape.wire.json_messages import describe_message, parse_json, read_message, write_message

N = name_dim("N", 1, 2**62)
I64 = "a whole number from -9223372036854775808 to 9223372036854775807"
ANSWER = build_infer_response(
    answer_question(ShapeRequest(Question(STATIC_RESHAPE, [N, 4], [0, -1], special_zero=True), explain=True))
)
REJECTION = reshape_pb2.Rejection(reason="NO", metadata={"value": "2", "index": "1"})


def test_described_message_has_numbers_and_written_message_has_text():
    entry = {"index": 0, "symbol": {"name": "N", "bounds": {"min": 1, "max": 2**62}}}
    assert describe_message(ANSWER)["shape"] == {"dims": [-1, 4], "partial": [entry]}
    written = json.loads(write_message(ANSWER))["shape"]
    assert written["dims"] == ["-1", "4"]
    assert written["partial"][0]["symbol"]["bounds"] == {"min": "1", "max": str(2**62)}


def test_described_message_keeps_text_and_small_numbers():
    copied, inferred = describe_message(ANSWER)["origins"]
    assert (copied["kind"], copied["dataIndex"], inferred["dividend"]) == ("KIND_COPIED", 0, "N*4")
    assert [*describe_message(REJECTION)["metadata"].items()] == [("index", "1"), ("value", "2")]


@examples(100)
@given(LAWFUL_REQUESTS)
def test_described_message_is_read_again(request: ShapeRequest):
    for message in (build_infer_request(request), *_list_answers(request)):
        record = describe_message(message)
        assert read_message(type(message), json.loads(json.dumps(record))) == message
        assert read_message(type(message), json_format.MessageToDict(message)) == message


def _list_answers(request: ShapeRequest) -> list[reshape_pb2.InferShapeResponse]:
    try:
        return [build_infer_response(answer_question(request))]
    except InvalidRequestError:
        return []


@pytest.mark.parametrize(
    ("document", "field"),
    [
        ([], ""),
        ("x", ""),
        ({"shape": []}, "shape"),
        ({"shape": "dims"}, "shape"),
        ({"data": {"shape": [2, 3]}}, "data.shape"),
        ({"shape": {"partial": [{}, []]}}, "shape.partial[1]"),
        ({"shape": {"partial": {"index": 0}}}, "shape.partial"),
        ({"expected_shape": {"partial": [{"symbol": {"bounds": [1]}}]}}, "expected_shape.partial[0].symbol.bounds"),
    ],
    ids=str,
)
def test_value_of_a_message_that_is_not_an_object_is_rejected(document: object, field: str):
    for ignores_unknown in (False, True):
        with pytest.raises(InvalidRequestError) as caught:
            read_message(reshape_pb2.InferShapeRequest, document, ignores_unknown=ignores_unknown)
        assert (caught.value.reason, caught.value.field) == (Reason.MESSAGE_MALFORMED, field)


@pytest.mark.parametrize(
    ("document", "field", "text"),
    [
        ({"data": "A"}, "data", 'data is "A", not base64'),
        ({"data": "AA*="}, "data", 'data is "AA*=", not base64'),
        ({"data": "AA="}, "data", 'data is "AA=", not base64'),
        ({"data": "AAAA="}, "data", 'data is "AAAA=", not base64'),
        ({"data": "AA==="}, "data", 'data is "AA===", not base64'),
        ({"data": 7}, "data", "data is 7, not base64"),
        ({"data": ["a"]}, "data", "data is a list, not base64"),
        ({"dataType": True}, "dataType", "dataType is true, not the name of a value"),
        ({"dataType": 2**32}, "dataType", "dataType is 4294967296, not the name of a value"),
        ({"dataType": []}, "dataType", "dataType is a list, not the name of a value"),
        ({"dims": ["1_0"]}, "dims[0]", f'dims[0] is "1_0", not {I64}'),
        ({"dims": [1e400]}, "dims[0]", f"dims[0] is Infinity, not {I64}"),
        ({"dims": [0, 2**63]}, "dims[1]", f"dims[1] is 9223372036854775808, not {I64}"),
        ({"dims": [str(-(2**63) - 1)]}, "dims[0]", f'dims[0] is "-9223372036854775809", not {I64}'),
        ({"dataType": "DATA_TYPE_U8", "data_type": "DATA_TYPE_U8"}, "data_type", "data_type is given twice"),
    ],
    ids=str,
)
def test_value_of_a_wrong_type_is_rejected_by_name(document: object, field: str, text: str):
    with pytest.raises(InvalidRequestError) as caught:
        read_message(tensor_pb2.Tensor, document)
    assert (caught.value.field, caught.value.message) == (field, text)


def test_all_forms_of_values_in_the_mapping_are_read():
    rows = [
        ({"data": "AAEC"}, tensor_pb2.Tensor(data=bytes(range(3)))),
        ({"data": "__8"}, tensor_pb2.Tensor(data=b"\xff\xff")),
        ({"data": "//8="}, tensor_pb2.Tensor(data=b"\xff\xff")),
        ({"dims": [2, "3", 4.0, "-5"]}, tensor_pb2.Tensor(dims=[2, 3, 4, -5])),
        ({"dataType": 1}, tensor_pb2.Tensor(data_type=tensor_pb2.DataType.values()[1])),
        ({"data_type": "DATA_TYPE_F32", "dims": None}, tensor_pb2.Tensor(data_type=tensor_pb2.DATA_TYPE_F32)),
    ]
    for document, message in rows:
        assert read_message(tensor_pb2.Tensor, document) == message, document


def test_unknown_names_are_ignored_only_on_request():
    document = {"dims": [2], "more": 1}
    assert read_message(tensor_pb2.Shape, document, ignores_unknown=True) == tensor_pb2.Shape(dims=[2])
    with pytest.raises(InvalidRequestError, match="no field named"):
        read_message(tensor_pb2.Shape, document)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"a": }', "the body is not JSON at character 7"),
        ('{\n"a": }', "the body is not JSON at line 2, character 6"),
        ('{"a": {"b": 1, "b": 1}}', "the body is not JSON: an object contains the same name twice"),
        ("9" * 5000, "the body is not JSON: a number has too many digits"),
        ("[" * 100_000, "the body is not JSON: it is nested too deeply"),
        ("[]", "the body is not a JSON object"),
    ],
    ids=lambda text: text[:20],
)
def test_error_of_text_that_is_not_json_names_the_place(text: str, message: str):
    with pytest.raises(InvalidRequestError) as caught:
        parse_json(text)
    assert caught.value.message == message


def test_float_that_is_not_a_number_is_rejected_by_name():
    for value, shown in (([1], "a list"), (True, "true"), ("x", '"x"'), ({}, "an object")):
        with pytest.raises(InvalidRequestError) as caught:
            read_message(find_class("ModelInferRequest"), {"parameters": {"a": {"double_param": value}}})
        assert caught.value.message == f"parameters[a].double_param is {shown}, not a number"


def test_float_may_be_a_number_or_the_text_of_one():
    for value, number in ((1, 1), (2.5, 2.5), ("-1e-3", -0.001), ("Infinity", math.inf), ("NaN", math.nan)):
        document = {"parameters": {"a": {"double_param": value}}}
        message: Any = read_message(find_class("ModelInferRequest"), document)
        assert message.parameters["a"].double_param == pytest.approx(number, nan_ok=True)
