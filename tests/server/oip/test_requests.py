"""Valid requests, and rejected requests with the reason, the field and the values of each."""

from typing import Any

import numpy as np
import pytest

from inference_requests import SIX, build_request, build_typed_request
from tensor_reshape.rules.errors import InvalidRequestError, LimitError, Reason, ReshapeError
from tensor_reshape.rules.limits import DEFAULT_LIMITS, MAX_HEADER_BYTES
from tensor_reshape.server.oip.messages import InferMessage, find_class
from tensor_reshape.server.oip.raw_contents import find_header_limit, split_message
from tensor_reshape.server.oip.requests import InferCall, parse_split, parse_whole, read_request

TARGET = np.array([3, -1], "<i8").tobytes()
DATA = {"name": "data", "datatype": "FP32", "shape": [2, 3]}
SHAPE = {"name": "shape", "datatype": "INT64", "shape": [2]}
FLAG = {"name": "special_zero", "datatype": "BOOL", "shape": [1]}
PARAMETER = find_class("InferParameter")
REGION = {"shared_memory_region": PARAMETER(string_param="mine")}
INPUT_INVALID, MODEL_UNKNOWN, PARAMETER_INVALID = Reason.INPUT_INVALID, Reason.MODEL_UNKNOWN, Reason.PARAMETER_INVALID


def read(request: InferMessage) -> InferCall:
    raw = request.SerializeToString()
    split = split_message(raw, find_header_limit(DEFAULT_LIMITS))
    assert split is not None
    return read_request(parse_split(raw, split), DEFAULT_LIMITS)


def read_whole(request: InferMessage) -> InferCall:
    parsed = parse_whole(request.SerializeToString(), DEFAULT_LIMITS)
    return read_request(parsed, DEFAULT_LIMITS)


def build(**fields: Any) -> InferMessage:
    """Returns a request whose requested shape is an input."""
    return build_request(target=None, **{"inputs": [DATA, SHAPE], "raw_input_contents": [SIX, TARGET], **fields})


def test_inference_inputs_are_matched_by_name():
    for step in (1, -1):
        call = read(build(inputs=[DATA, SHAPE][::step], raw_input_contents=[SIX, TARGET][::step]))
        assert (call.first.dims, bytes(call.first.payload), list(call.target)) == ((2, 3), SIX, [3, -1])


def test_inference_input_data_is_a_view_of_the_message():
    raw = build_request().SerializeToString()
    split = split_message(raw, MAX_HEADER_BYTES)
    assert split is not None
    assert parse_split(raw, split).raw_contents[0].obj is raw


def test_inference_target_parameter_is_a_json_list_of_integers():
    texts = ("[3,-1]", " [ 3 , -1 ] ", "[3,-1]\n", "[]")
    assert [list(read(build_request(target=text)).target) for text in texts] == [[3, -1]] * 3 + [[]]


def test_inference_request_with_an_oversized_header_is_rejected():
    for name, request in {
        "target": build_request(target="[" + "1," * MAX_HEADER_BYTES + "1]"),
        "shape": build_request(shape=[1] * MAX_HEADER_BYTES),
        "id": build_request(id="x" * MAX_HEADER_BYTES),
    }.items():
        with pytest.raises(LimitError) as caught:
            read(request)
        assert caught.value.reason is Reason.HEADER_TOO_LARGE, name


def test_tensor_data_does_not_count_toward_the_inference_header_limit():
    assert read(build_typed_request([1] * MAX_HEADER_BYTES)).first.payload.nbytes == MAX_HEADER_BYTES
    assert (
        read_whole(build_request(shape=[MAX_HEADER_BYTES // 4], payload=bytes(MAX_HEADER_BYTES))).special_zero is False
    )


def test_inference_request_ignores_unknown_parameters():
    request = build_request(special_zero=None)
    request.parameters["priority"].int64_param = 3
    call = read(request)
    assert (call.special_zero, list(call.target)) == (None, [3, -1])


def build_flag(payload: bytes = b"\1", flag: bool | None = None, **fields: Any) -> InferMessage:
    """Returns a request whose `special_zero` is an input, and also a parameter if `flag` has a value."""
    tensor = {**FLAG, **fields}
    return build_request(inputs=[DATA, tensor], raw_input_contents=[SIX, payload], special_zero=flag)


def test_inference_special_zero_is_an_input_or_a_parameter():
    for value in (False, True):
        requests = [build_flag(bytes([value])), build_flag(bytes([value]), shape=[]), build_request(special_zero=value)]
        assert [read(request).special_zero for request in requests] == [value] * 3


def test_inference_special_zero_may_be_typed_contents():
    for value in (False, True):
        tensors = [{**DATA, "contents": {"fp32_contents": range(6)}}, {**FLAG, "contents": {"bool_contents": [value]}}]
        request = build_request(inputs=tensors, raw_input_contents=[], special_zero=None)
        assert read(request).special_zero is value


def test_equal_inference_special_zero_input_and_parameter_are_accepted():
    for value in (False, True):
        assert read(build_flag(bytes([value]), value)).special_zero is value


def build_with(parameters: dict[str, dict[str, object]], **fields: Any) -> InferMessage:
    request = build_request(**fields)
    for name, choice in parameters.items():
        request.parameters[name].CopyFrom(PARAMETER(**choice))
    return request


REJECTED = [
    (build_request("nothing"), MODEL_UNKNOWN, "model_name", "unknown model: 'nothing'"),
    (build_request("x" * 9999), MODEL_UNKNOWN, "model_name", "this server has static_reshape"),
    (build_request(model_version="7"), MODEL_UNKNOWN, "model_version", "it has version 1"),
    (build(inputs=[DATA, {**SHAPE, "name": "s"}]), INPUT_INVALID, "inputs[1].name", "unexpected inference input 's'"),
    (build(inputs=[DATA, DATA]), INPUT_INVALID, "inputs[1].name", "is given twice"),
    (build(inputs=[SHAPE], raw_input_contents=[TARGET]), Reason.FIELD_MISSING, "inputs", "expected input 'data'"),
    (build(inputs=[{**DATA, "datatype": "BYTES"}, SHAPE]), Reason.DATA_TYPE_UNSUPPORTED, "inputs[0].datatype", "BYTES"),
    (
        build(inputs=[{**SHAPE, "datatype": "FP32"}, DATA], raw_input_contents=[TARGET, SIX]),
        Reason.SHAPE_DATA_TYPE_UNSUPPORTED,
        "inputs[0].datatype",
        "INT64",
    ),
    (
        build_request("static_reshape", datatype="FP64"),
        Reason.DATA_TYPE_UNSUPPORTED,
        "inputs[0].datatype",
        "FP16, BF16, FP32",
    ),
    (build(inputs=[DATA, {**SHAPE, "shape": [2, 1]}]), Reason.SHAPE_RANK_INVALID, "inputs[1].shape", "rank 1"),
    (build(raw_input_contents=[SIX, TARGET[:-1]]), Reason.DATA_SIZE_MISMATCH, "inputs[1]", "INT64 of the shape [2]"),
    (
        build(inputs=[DATA, {**SHAPE, "shape": [-1]}]),
        Reason.DIM_OUT_OF_RANGE,
        "inputs[1].shape[0]",
        "inputs[1].shape[0] is -1; a dimension must be from 0 to 2^63 - 1",
    ),
    (
        build(inputs=[DATA, {**SHAPE, "shape": [65]}], raw_input_contents=[SIX, bytes(520)]),
        Reason.RANK_LIMIT_EXCEEDED,
        "inputs[1]",
        "inputs[1] has 65 items; this server takes up to 64",
    ),
    (build(raw_input_contents=[SIX]), INPUT_INVALID, "raw_input_contents", "has 1 entries; it must have 2"),
    (
        build(inputs=[DATA, {**SHAPE, "contents": {"int64_contents": [3, -1]}}]),
        INPUT_INVALID,
        "inputs[1].contents",
        "must not be specified when using raw_input_contents",
    ),
    (build_request(target=None), Reason.FIELD_MISSING, "shape", "neither"),
    (
        build_with({"shape": {"string_param": "[6]"}}, inputs=[DATA, SHAPE], raw_input_contents=[SIX, TARGET]),
        PARAMETER_INVALID,
        "shape",
        "both",
    ),
    (build_request(target="3,-1"), PARAMETER_INVALID, "parameters[shape]", "a list of integers"),
    (build_request(target="[3,]"), PARAMETER_INVALID, "parameters[shape]", "a list of integers"),
    (build_request(target="[1.0]"), PARAMETER_INVALID, "parameters[shape]", "a list of integers"),
    (build_request(target=f"[{2**63}]"), PARAMETER_INVALID, "parameters[shape]", "fit into INT64"),
    (build_request(target=f"[{-(2**63) - 1}]"), PARAMETER_INVALID, "parameters[shape]", "fit into INT64"),
    (build_with({"shape": {"int64_param": 6}}), PARAMETER_INVALID, "parameters[shape]", "must be a string"),
    (build_with({"special_zero": {"string_param": "true"}}), PARAMETER_INVALID, "parameters[special_zero]", "bool"),
    (build_with({"special_zero": {}}), PARAMETER_INVALID, "parameters[special_zero]", "no bool"),
    (build_flag(b"\0", flag=True), PARAMETER_INVALID, "special_zero", "'special_zero' is false, but the parameter"),
    (build_flag(b"\1", flag=False), PARAMETER_INVALID, "special_zero", "'special_zero' is false; send only one"),
    (build_flag(b"\2"), INPUT_INVALID, "inputs[1]", "input 'special_zero' is the byte 2; it must be 0"),
    (build_flag(b""), Reason.DATA_SIZE_MISMATCH, "inputs[1]", "inputs[1] has 0 elements; BOOL of the shape [1] has 1"),
    (build_flag(b"\1\1"), Reason.DATA_SIZE_MISMATCH, "inputs[1]", "inputs[1] has 2 elements"),
    (build_flag(b"\1\1", shape=[2]), INPUT_INVALID, "inputs[1].shape", "'special_zero' has the shape [2]"),
    (build_flag(shape=[1, 1]), INPUT_INVALID, "inputs[1].shape", "must have the shape [1]"),
    (build_flag(datatype="INT8"), Reason.DATA_TYPE_UNSUPPORTED, "inputs[1].datatype", "model 'reshape' accepts BOOL"),
    (build(inputs=[DATA, FLAG, FLAG]), INPUT_INVALID, "inputs[2].name", "input 'special_zero' for model"),
    (build_request(outputs=[{"name": "probabilities"}]), Reason.OUTPUT_INVALID, "outputs[0].name", "'output'"),
    (build_request(outputs=[{"name": "output"}] * 2), Reason.OUTPUT_INVALID, "outputs[1].name", "is given twice"),
    (
        build_request(outputs=[{"name": "output", "parameters": {"classification": PARAMETER(int64_param=3)}}]),
        PARAMETER_INVALID,
        "outputs[0].parameters",
        "does not classify",
    ),
    (
        build_request(outputs=[{"name": "output", "parameters": REGION}]),
        PARAMETER_INVALID,
        "outputs[0].parameters",
        "this server has no shared memory; send the tensor in the message",
    ),
    (build(inputs=[DATA, {**SHAPE, "parameters": REGION}]), PARAMETER_INVALID, "inputs[1].parameters", "shared memory"),
    (
        build_with(
            {"operation": {"string_param": "transpose"}},
            model="infer_shape",
            inputs=[{**SHAPE, "name": "data_shape"}],
            raw_input_contents=[TARGET],
        ),
        PARAMETER_INVALID,
        "parameters[operation]",
        "one of static_reshape",
    ),
]


@pytest.mark.parametrize(("request_", "reason", "field", "text"), REJECTED)
def test_inference_request_rejection_has_reason_field_and_message(
    request_: InferMessage, reason: Reason, field: str, text: str
):
    with pytest.raises(ReshapeError) as caught:
        read(request_)
    assert (caught.value.reason, caught.value.field) == (reason, field)
    assert text in caught.value.message


def test_inference_request_is_decoded_equally_by_the_protobuf_class():
    call = read_whole(build())
    assert (bytes(call.first.payload), list(call.target)) == (SIX, [3, -1])


def test_inference_message_too_large_for_the_protobuf_class_is_rejected():
    limit = find_header_limit(DEFAULT_LIMITS)
    parse_whole(b"\x1a\x00" * (limit // 2), DEFAULT_LIMITS)
    with pytest.raises(InvalidRequestError, match="unusual encoding") as caught:
        parse_whole(b"\x1a\x00" * (limit // 2 + 1), DEFAULT_LIMITS)
    assert caught.value.reason is Reason.MESSAGE_MALFORMED
