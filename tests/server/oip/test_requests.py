"""What a request says, and which are refused: each with the reason, the field and the values."""

from typing import Any

import numpy as np
import pytest

from inference_requests import SIX, build_request, build_typed_request
from tensor_reshape.rules.errors import LimitError, Reason, ReshapeError
from tensor_reshape.rules.limits import DEFAULT_LIMITS, MAX_HEADER_BYTES
from tensor_reshape.rules.operations import RESHAPE, STATIC_RESHAPE
from tensor_reshape.server.oip.messages import InferMessage, find_class
from tensor_reshape.server.oip.raw_contents import find_header_limit, split_message
from tensor_reshape.server.oip.requests import InferCall, names_a_region, parse_split, parse_whole, read_request
from tensor_reshape.server.oip.shared_memory import SharedMemory

TARGET = np.array([3, -1], "<i8").tobytes()
DATA = {"name": "data", "datatype": "FP32", "shape": [2, 3]}
SHAPE = {"name": "shape", "datatype": "INT64", "shape": [2]}
PARAMETER = find_class("InferParameter")


def read(request: InferMessage) -> InferCall:
    raw = request.SerializeToString()
    split = split_message(raw, find_header_limit(DEFAULT_LIMITS))
    assert split is not None
    return read_request(parse_split(raw, split), SharedMemory(None), DEFAULT_LIMITS)


def build(**fields: Any) -> InferMessage:
    """Returns a request whose target is an input."""
    return build_request(target=None, **{"inputs": [DATA, SHAPE], "raw_input_contents": [SIX, TARGET], **fields})


@pytest.mark.parametrize("reverses", [False, True])
def test_inputs_go_by_their_names(reverses: bool):
    step = -1 if reverses else 1
    call = read(build(inputs=[DATA, SHAPE][::step], raw_input_contents=[SIX, TARGET][::step]))
    assert (call.first.dims, bytes(call.first.payload), list(call.target)) == ((2, 3), SIX, [3, -1])


def test_elements_are_a_view_of_the_message():
    raw = build_request().SerializeToString()
    split = split_message(raw, MAX_HEADER_BYTES)
    assert split is not None
    assert parse_split(raw, split).raw_contents[0].obj is raw


@pytest.mark.parametrize("text", ["[3,-1]", " [ 3 , -1 ] ", "[3,-1]\n"])
def test_a_target_is_a_list_in_a_text(text: str):
    assert list(read(build_request(target=text)).target) == [3, -1]


def test_an_empty_list_is_a_target():
    assert list(read(build_request(target="[]")).target) == []


LONG = [
    build_request(target="[" + "1," * MAX_HEADER_BYTES + "1]"),
    build_request(shape=[1] * MAX_HEADER_BYTES),
    build_request(id="x" * MAX_HEADER_BYTES),
]


@pytest.mark.parametrize("request_", LONG, ids=["target", "shape", "id"])
def test_what_is_no_element_is_short(request_: InferMessage):
    with pytest.raises(LimitError) as caught:
        read(request_)
    assert caught.value.reason is Reason.HEAD_TOO_LARGE


def test_elements_are_no_part_of_what_is_short():
    assert read(build_typed_request([1] * MAX_HEADER_BYTES)).first.payload.nbytes == MAX_HEADER_BYTES
    raw = build_request(payload=bytes(MAX_HEADER_BYTES)).SerializeToString()
    assert read_request(parse_whole(raw, DEFAULT_LIMITS), SharedMemory(None), DEFAULT_LIMITS).special_zero is False


def test_special_zero_that_is_left_out_is_left_to_the_rules():
    assert read(build_request(special_zero=None)).special_zero is None


def test_a_parameter_that_no_model_has_is_ignored():
    request = build_request()
    request.parameters["priority"].int64_param = 3
    assert list(read(request).target) == [3, -1]


@pytest.mark.parametrize(("model", "operation"), [("reshape", RESHAPE), ("static_reshape", STATIC_RESHAPE)])
def test_a_model_answers_by_the_rules_of_its_operation(model: str, operation: object):
    assert read(build_request(model)).operation is operation


def test_the_output_may_be_asked_for_by_its_name():
    assert read(build_request(outputs=[{"name": "output"}])).place is None


def build_with(parameters: dict[str, dict[str, object]], **fields: Any) -> InferMessage:
    request = build_request(**fields)
    for name, choice in parameters.items():
        request.parameters[name].CopyFrom(PARAMETER(**choice))
    return request


REFUSED = [
    (build_request("nothing"), Reason.MODEL_UNKNOWN, "model_name", "unknown model: 'nothing'"),
    (build_request("x" * 9999), Reason.MODEL_UNKNOWN, "model_name", "this server has static_reshape"),
    (build_request(model_version="7"), Reason.MODEL_UNKNOWN, "model_version", "it has version 1"),
    (
        build(inputs=[DATA, {**SHAPE, "name": "s"}]),
        Reason.INPUT_INVALID,
        "inputs[1].name",
        "unexpected inference input 's'",
    ),
    (build(inputs=[DATA, DATA]), Reason.INPUT_INVALID, "inputs[1].name", "comes twice"),
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
    (build(inputs=[DATA, {**SHAPE, "shape": [2, 1]}]), Reason.SHAPE_RANK_INVALID, "shape.dims", "rank 2"),
    (build(raw_input_contents=[SIX, TARGET[:-1]]), Reason.DATA_SIZE_MISMATCH, "shape.data", "15 bytes"),
    (build(raw_input_contents=[SIX]), Reason.INPUT_INVALID, "raw_input_contents", "has 1 entries; 2 inputs"),
    (
        build(inputs=[DATA, {**SHAPE, "contents": {"int64_contents": [3, -1]}}]),
        Reason.INPUT_INVALID,
        "inputs[1].contents",
        "must not be specified when using raw_input_contents",
    ),
    (build_request(target=None), Reason.FIELD_MISSING, "shape", "neither"),
    (
        build_with({"shape": {"string_param": "[6]"}}, inputs=[DATA, SHAPE], raw_input_contents=[SIX, TARGET]),
        Reason.PARAMETER_INVALID,
        "shape",
        "both",
    ),
    (build_request(target="3,-1"), Reason.PARAMETER_INVALID, "parameters[shape]", "a list of integers"),
    (build_request(target="[3,]"), Reason.PARAMETER_INVALID, "parameters[shape]", "a list of integers"),
    (build_request(target="[1.0]"), Reason.PARAMETER_INVALID, "parameters[shape]", "a list of integers"),
    (build_request(target=f"[{2**63}]"), Reason.PARAMETER_INVALID, "parameters[shape]", "an INT64 holds"),
    (build_request(target=f"[{-(2**63) - 1}]"), Reason.PARAMETER_INVALID, "parameters[shape]", "an INT64 holds"),
    (build_with({"shape": {"int64_param": 6}}), Reason.PARAMETER_INVALID, "parameters[shape]", "is a string"),
    (
        build_with({"special_zero": {"string_param": "true"}}),
        Reason.PARAMETER_INVALID,
        "parameters[special_zero]",
        "bool",
    ),
    (build_with({"special_zero": {}}), Reason.PARAMETER_INVALID, "parameters[special_zero]", "no value"),
    (build_request(outputs=[{"name": "probabilities"}]), Reason.OUTPUT_INVALID, "outputs[0].name", "'output'"),
    (build_request(outputs=[{"name": "output"}] * 2), Reason.OUTPUT_INVALID, "outputs[1].name", "comes twice"),
    (
        build_request(outputs=[{"name": "output", "parameters": {"classification": PARAMETER(int64_param=3)}}]),
        Reason.PARAMETER_INVALID,
        "outputs[0].parameters",
        "does not classify",
    ),
    (
        build_with(
            {"operation": {"string_param": "transpose"}},
            model="infer_shape",
            inputs=[{**SHAPE, "name": "data_shape"}],
            raw_input_contents=[TARGET],
        ),
        Reason.PARAMETER_INVALID,
        "parameters[operation]",
        "one of static_reshape",
    ),
]


@pytest.mark.parametrize(("request_", "reason", "field", "text"), REFUSED)
def test_a_refusal_says_what_is_wrong_and_where(request_: InferMessage, reason: Reason, field: str, text: str):
    with pytest.raises(ReshapeError) as caught:
        read(request_)
    assert (caught.value.reason, caught.value.field) == (reason, field)
    assert text in caught.value.message


def test_a_message_that_is_parsed_whole_says_the_same():
    raw = build().SerializeToString()
    call = read_request(parse_whole(raw, DEFAULT_LIMITS), SharedMemory(None), DEFAULT_LIMITS)
    assert (bytes(call.first.payload), list(call.target)) == (SIX, [3, -1])


def test_a_region_is_named_by_an_input_or_an_output():
    region = {"shared_memory_region": PARAMETER(string_param="mine")}
    assert not names_a_region(build())
    assert names_a_region(build(inputs=[DATA, {**SHAPE, "parameters": region}]))
    assert names_a_region(build(outputs=[{"name": "output", "parameters": region}]))
