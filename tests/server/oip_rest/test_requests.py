"""Inference requests over REST: their bodies, their headers, and what is rejected."""

import json
import math
import struct
from typing import Any

import pytest
from starlette.requests import Request as HttpRequest

from rest_requests import change_body, write_body
from tensor_reshape.rules.errors import InvalidRequestError
from tensor_reshape.server.oip.messages import find_class
from tensor_reshape.server.oip_rest.requests import MAX_JSON_BYTES, InferBody, find_infer_error, read_infer_body
from tensor_reshape.server.oip_rest.responses import LENGTH_HEADER
from tensor_reshape.wire.json_messages import read_message

NESTED = [[1, 2, 3], [4, 5, 6.5]]
PACKED = struct.pack("<6f", 1, 2, 3, 4, 5, 6.5)


def read(body: bytes, payload: bytes = b"", version: str = "") -> InferBody:
    return read_infer_body(body + payload, len(body), "reshape", version)


def find_rejection(body: bytes, payload: bytes = b"") -> InvalidRequestError:
    with pytest.raises(InvalidRequestError) as caught:
        read(body, payload)
    return caught.value


def find_code(**headers: str) -> int:
    """Returns the HTTP status with which the headers of a request are rejected; 0 if they are accepted."""
    pairs = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    error = find_infer_error(HttpRequest({"type": "http", "method": "POST", "headers": pairs}), 1 << 30)
    return 0 if error is None else error.status_code


@pytest.mark.parametrize("data", [[1, 2, 3, 4, 5, 6.5], NESTED], ids=["flat", "nested"])
def test_numbers_of_a_rest_request_become_bytes(data: object):
    (content,) = read(write_body(data=data)).request.raw_contents
    assert bytes(content) == PACKED


def test_binary_input_is_a_view_of_the_body():
    body = write_body(binary=24)
    whole = body + PACKED
    (content,) = read_infer_body(whole, len(body), "reshape", "").request.raw_contents
    assert content == PACKED
    assert content.obj is whole


def test_binary_inputs_follow_the_json_in_their_order():
    first = json.loads(write_body(binary=24))["inputs"][0]
    target = {"name": "shape", "datatype": "INT64", "shape": [1], "parameters": {"binary_data_size": 8}}
    body = change_body(write_body(), inputs=[target, first])
    assert list(map(bytes, read(body, b"\0" * 8 + PACKED).request.raw_contents)) == [b"\0" * 8, PACKED]


def test_numbers_and_bytes_can_be_mixed():
    first = json.loads(write_body(binary=24))["inputs"][0]
    target = {"name": "shape", "datatype": "INT64", "shape": [2], "data": [3, -1]}
    body = change_body(write_body(), inputs=[target, first])
    assert list(map(bytes, read(body, PACKED).request.raw_contents)) == [struct.pack("<2q", 3, -1), PACKED]


def test_list_parameter_becomes_text():
    message = read(write_body(target=[3, -1])).request.message
    assert message.parameters["shape"].string_param == "[3, -1]"


@pytest.mark.parametrize(
    ("parameters", "output", "is_binary"),
    [
        ({}, {}, False),
        ({"binary_data_output": True}, {}, True),
        ({}, {"binary_data": True}, True),
        ({"binary_data_output": True}, {"binary_data": False}, False),
    ],
    ids=["default", "of the request", "of the output", "both"],
)
def test_parameters_choose_the_form_of_the_output(
    parameters: dict[str, bool], output: dict[str, bool], is_binary: bool
):
    body = change_body(write_body(), parameters=parameters, outputs=[{"name": "output", "parameters": output}])
    assert read(body).is_binary is is_binary


def test_names_of_the_path_may_repeat_in_the_body():
    message = read(change_body(write_body(), model_name="reshape", model_version="1"), version="1").request.message
    assert (message.model_name, message.model_version) == ("reshape", "1")


@pytest.mark.parametrize(
    ("body", "field", "text"),
    [
        (b"\xff", "", "not UTF-8"),
        (b"[]", "", "not a JSON object"),
        (b'{"x":1}', "", "the unknown key 'x'; use id, parameters, inputs, outputs"),
        (b'{"model_name":["reshape"]}', "model_name", "differs from the path"),
        (b'{"inputs":[1]}', "inputs[0]", "is not a JSON object"),
        (b'{"parameters":{"a":{"b":1}}}', "parameters[a].string_param", 'is {"b": 1}, not valid text'),
        (b'{"parameters":{"binary_data_output":1}}', "parameters[binary_data_output]", "must be true or false"),
        (write_body(data=[[1, 2], [3, 4, 5, 6]]), "inputs[0].data", "nested lists in the shape [2, 3]"),
        (write_body(data=[1, 2, "3", 4, 5, 6]), "inputs[0].data[2]", "is not a value of the type f32"),
        (write_body(data=[1, 2, True, 4, 5, 6]), "inputs[0].data[2]", "is not a value of the type f32"),
        (write_body(data=[1e300] * 6), "inputs[0].data[0]", "does not fit into f32"),
        (write_body(data=[0] * 6, datatype="FP16"), "inputs[0].data", "have no form in JSON; use binary data"),
        (write_body(data=[0] * 6, datatype="BYTES"), "inputs[0].datatype", "BYTES"),
        (write_body(data=None), "inputs[0]", "must have its elements either as data, or as binary data"),
        (write_body(binary=24, data=[0] * 6), "inputs[0]", "must have its elements either as data, or as binary data"),
        (write_body(binary=1), "inputs[0].parameters", "up to 0, the bytes left in the body"),
        (write_body(binary=True), "inputs[0].parameters", "must be an integer"),
    ],
    ids=range(17),
)
def test_malformed_rest_body_is_rejected_with_its_field(body: bytes, field: str, text: str):
    rejection = find_rejection(body)
    assert rejection.field == field
    assert text in rejection.message


def test_bytes_that_belong_to_no_input_are_rejected():
    assert "has 1 bytes after its JSON" in find_rejection(write_body(), b"x").message


def test_sizes_in_the_headers_are_checked_before_the_body_is_read():
    assert find_code(content_length=str(MAX_JSON_BYTES)) == 0
    assert find_code(content_length=str(1 << 30), **{LENGTH_HEADER: "100"}) == 0
    assert find_code() == 411
    assert find_code(content_length="-1") == 411
    assert find_code(content_length=str((1 << 30) + 1), **{LENGTH_HEADER: "100"}) == 413
    assert find_code(content_length=str(MAX_JSON_BYTES + 1)) == 413
    assert find_code(content_length="9", **{LENGTH_HEADER: "10"}) == 400
    assert find_code(content_length="9", **{LENGTH_HEADER: "x"}) == 400


def test_chunked_rest_body_is_rejected_even_with_a_length():
    assert find_code(content_length="9", transfer_encoding="chunked") == 411


def test_compressed_rest_body_is_rejected():
    assert find_code(content_length="9", content_encoding="gzip") == 415
    assert find_code(content_length="9", content_encoding="identity") == 0


def test_float_that_is_not_a_number_is_rejected_by_name():
    for value, shown in (([1], "[1]"), (True, "true"), ("x", '"x"'), ({}, "{}")):
        with pytest.raises(InvalidRequestError) as caught:
            read_message(find_class("ModelInferRequest"), {"parameters": {"a": {"double_param": value}}})
        assert caught.value.message == f"parameters[a].double_param is {shown}, not a number"


def test_float_may_be_a_number_or_the_text_of_one():
    for value, number in ((1, 1), (2.5, 2.5), ("-1e-3", -0.001), ("Infinity", math.inf), ("NaN", math.nan)):
        document = {"parameters": {"a": {"double_param": value}}}
        message: Any = read_message(find_class("ModelInferRequest"), document)
        assert message.parameters["a"].double_param == pytest.approx(number, nan_ok=True)
