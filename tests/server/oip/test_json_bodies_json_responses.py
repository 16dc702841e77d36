"""Responses over REST: elements as numbers or bytes."""

import json
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from http_calls import write_body
from tensor_reshape.rules.dtypes import DataType
from tensor_reshape.rules.errors import InvalidRequestError, LimitError, Reason
from tensor_reshape.rules.limits import DEFAULT_LIMITS
from tensor_reshape.server.oip.json_bodies import read_infer_request, write_infer_response
from tensor_reshape.server.oip.requests import InferCall, read_request
from tensor_reshape.wire.tensors import TensorView


def read_call(body: bytes) -> InferCall:
    return read_request(read_infer_request(body, len(body), "reshape", "").request, DEFAULT_LIMITS)


def write(data_type: DataType, payload: bytes, *dims: int, is_binary: bool = False) -> tuple[object, bytes | None]:
    """Returns the JSON and the bytes of a response."""
    output = TensorView(data_type, dims, None, memoryview(payload))
    header, elements = write_infer_response(read_call(write_body()), output, None, is_binary=is_binary)
    return json.loads(header), None if elements is None else bytes(elements)


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
    assert repr(document["outputs"][0]["data"]) == repr(numbers)
    assert payload is None


@pytest.mark.parametrize(("datatype", "code", "width"), [("FP32", "f", 32), ("FP64", "d", 64)])
def test_floats_written_and_read_again_have_the_same_bits(datatype: str, code: str, width: int):
    @given(st.lists(st.floats(width=width, allow_nan=False, allow_infinity=False), max_size=8))  # type: ignore[arg-type] # of two widths
    def check(numbers: list[float]) -> None:
        payload = struct.pack(f"<{len(numbers)}{code}", *numbers)
        data_type = DataType.F32 if width == 32 else DataType.F64
        document, _ = write(data_type, payload, len(numbers))
        assert isinstance(document, dict)
        data = document["outputs"][0]["data"]
        assert bytes(read_call(write_body(data=data, datatype=datatype, shape=[len(data)])).first.payload) == payload

    check()


def test_binary_elements_follow_the_json():
    document, payload = write(DataType.BF16, b"abcd", 2, is_binary=True)
    assert document == {
        "model_name": "reshape",
        "model_version": "1",
        "outputs": [{"name": "output", "datatype": "BF16", "shape": [2], "parameters": {"binary_data_size": 4}}],
    }
    assert payload == b"abcd"


@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")])
@pytest.mark.parametrize(("data_type", "code"), [(DataType.F32, "f"), (DataType.F64, "d")])
def test_number_that_json_cannot_express_is_rejected(data_type: DataType, code: str, number: float):
    with pytest.raises(InvalidRequestError, match="set binary_data to true") as caught:
        write(data_type, struct.pack(f"<{code}", number), 1)
    assert (caught.value.reason, caught.value.field) == (Reason.OUTPUT_INVALID, "outputs[0]")


@pytest.mark.parametrize("data_type", [DataType.F16, DataType.BF16], ids=str)
def test_type_without_a_form_in_json_is_rejected(data_type: DataType):
    with pytest.raises(InvalidRequestError, match="have no form in JSON: set binary_data to true") as caught:
        write(data_type, b"ab", 1)
    assert caught.value.reason is Reason.OUTPUT_INVALID


def test_too_many_elements_for_json_are_rejected():
    with pytest.raises(LimitError, match="the output has 524289 elements; JSON may have 524288") as caught:
        write(DataType.I8, bytes((1 << 19) + 1), (1 << 19) + 1)
    assert caught.value.reason is Reason.OUTPUT_TOO_LARGE
