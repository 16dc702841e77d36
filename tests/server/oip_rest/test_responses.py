"""Responses over REST: elements as numbers or bytes, errors, and messages as JSON."""

import json
import struct

import pytest

from rest_requests import write_body
from tensor_reshape.rules.dtypes import DataType
from tensor_reshape.rules.errors import InvalidRequestError, LimitError, Reason
from tensor_reshape.rules.limits import DEFAULT_LIMITS
from tensor_reshape.server.oip.messages import find_class
from tensor_reshape.server.oip.requests import InferCall, read_request
from tensor_reshape.server.oip_rest.requests import read_infer_body
from tensor_reshape.server.oip_rest.responses import build_error, describe_message, write_reply
from tensor_reshape.wire.tensors import TensorView


def read_call() -> InferCall:
    body = write_body()
    return read_request(read_infer_body(body, len(body), "reshape", "").request, DEFAULT_LIMITS)


def write(data_type: DataType, payload: bytes, *dims: int, is_binary: bool = False) -> tuple[object, bytes | None]:
    """Returns the JSON and the bytes of a response."""
    output = TensorView(data_type, dims, None, memoryview(payload))
    reply = write_reply(read_call(), output, None, is_binary=is_binary)
    return json.loads(reply.header), None if reply.payload is None else bytes(reply.payload)


@pytest.mark.parametrize(
    ("data_type", "code", "numbers"),
    [
        (DataType.BOOLEAN, "?", [True, False]),
        (DataType.I8, "b", [-128, 127]),
        (DataType.U64, "Q", [0, 2**64 - 1]),
        (DataType.F32, "f", [0.5, -0.0]),
        (DataType.F64, "d", [0.1, 1e300]),
        (DataType.I64, "q", list(range(40_000))),
        (DataType.I32, "i", []),
    ],
    ids=lambda value: str(value) if isinstance(value, DataType) else "",
)
def test_elements_are_numbers_of_the_json(data_type: DataType, code: str, numbers: list[float]):
    document, payload = write(data_type, struct.pack(f"<{len(numbers)}{code}", *numbers), len(numbers))
    assert isinstance(document, dict)
    assert document["outputs"][0]["data"] == numbers
    assert payload is None


def test_binary_elements_follow_the_json():
    document, payload = write(DataType.BF16, b"abcd", 2, is_binary=True)
    assert document == {
        "model_name": "reshape",
        "model_version": "1",
        "outputs": [{"name": "output", "datatype": "BF16", "shape": [2], "parameters": {"binary_data_size": 4}}],
    }
    assert payload == b"abcd"


@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")])
def test_number_that_json_cannot_express_is_rejected(number: float):
    with pytest.raises(InvalidRequestError, match="set binary_data to true"):
        write(DataType.F32, struct.pack("<f", number), 1)


def test_too_many_elements_for_json_are_rejected():
    with pytest.raises(LimitError, match="more than 524288 elements") as caught:
        write(DataType.I8, bytes((1 << 19) + 1), (1 << 19) + 1)
    assert caught.value.reason == Reason.OUTPUT_TOO_LARGE


def test_error_has_its_reason_in_the_text_and_in_a_header():
    response = build_error(401, Reason.UNAUTHENTICATED, "no token", {"x-request-id": "mine"})
    assert json.loads(bytes(response.body)) == {"error": "UNAUTHENTICATED: no token"}
    headers = {name: response.headers[name] for name in ("tensor-reshape-reason", "www-authenticate", "x-request-id")}
    assert headers == {"tensor-reshape-reason": "UNAUTHENTICATED", "www-authenticate": "Bearer", "x-request-id": "mine"}


def test_message_has_the_names_and_numbers_of_its_definition():
    described = describe_message(
        find_class("ModelInferResponse")(
            model_name="m",
            parameters={"b": {"bool_param": False}, "a": {"int64_param": 2**53}},
            outputs=[{"name": "o", "shape": [-1]}],
        )
    )
    assert described["parameters"] == {"a": 2**53, "b": False}
    assert described["outputs"] == [{"name": "o", "shape": [-1]}]
