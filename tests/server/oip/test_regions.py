"""Where a tensor lies, by the parameters of a request."""

from pathlib import Path
from typing import Any

import pytest

from inference_requests import SIX, build_request
from tensor_reshape.rules.errors import LimitError, Reason, ReshapeError
from tensor_reshape.rules.limits import DEFAULT_LIMITS
from tensor_reshape.server.oip.inferences import Inference
from tensor_reshape.server.oip.messages import InferMessage, find_class
from tensor_reshape.server.oip.regions import Place, find_place
from tensor_reshape.server.oip.shared_memory import Region, SharedMemory
from tensor_reshape.server.service.methods import ReshapeService

REGION, SIZE, OFFSET = "shared_memory_region", "shared_memory_byte_size", "shared_memory_offset"
INT64 = 2**63 - 1


def find(**parameters: Any) -> Place | None:
    output = find_class("ModelInferRequest")(outputs=[{"name": "output", "parameters": parameters}]).outputs[0]  # type: ignore[attr-defined] # a message of the pool
    return find_place(output.parameters, "outputs[0]", DEFAULT_LIMITS)


def test_a_tensor_lies_in_the_message_unless_a_region_is_named():
    assert find(**{SIZE: {"int64_param": 1}}) is None


@pytest.mark.parametrize("kind", ["int64_param", "uint64_param"])
def test_a_place_is_part_of_a_region(kind: str):
    named = {REGION: {"string_param": "one"}, SIZE: {kind: 8}, OFFSET: {kind: 4}}
    assert find(**named) == Place("one", 4, 8)


def test_without_an_offset_it_begins_where_the_region_does():
    assert find(**{REGION: {"string_param": "one"}, SIZE: {"int64_param": 8}}) == Place("one", 0, 8)


@pytest.mark.parametrize(
    "parameters",
    [
        {REGION: {"string_param": "one"}},
        {REGION: {"int64_param": 1}, SIZE: {"int64_param": 1}},
        {REGION: {"string_param": "one"}, SIZE: {"string_param": "1"}},
        {REGION: {"string_param": "one"}, SIZE: {}},
        {REGION: {"string_param": "one"}, SIZE: {"int64_param": -1}},
        {REGION: {"string_param": "one"}, SIZE: {"int64_param": 1}, OFFSET: {"int64_param": -(2**63)}},
        {REGION: {"string_param": "one"}, SIZE: {"int64_param": 1}, OFFSET: {"bool_param": True}},
    ],
)
def test_a_place_of_another_kind_is_refused(parameters: dict[str, Any]):
    with pytest.raises(ReshapeError) as caught:
        find(**parameters)
    assert (caught.value.reason, caught.value.field) == (Reason.PARAMETER_INVALID, "outputs[0].parameters")


def test_no_place_is_larger_than_what_room_is_taken_for():
    most = DEFAULT_LIMITS.max_output_bytes
    assert find(**{REGION: {"string_param": "one"}, SIZE: {"int64_param": most}}) == Place("one", 0, most)
    for size in (most + 1, INT64):
        with pytest.raises(LimitError) as caught:
            find(**{REGION: {"string_param": "one"}, SIZE: {"int64_param": size}})
        assert caught.value.reason == Reason.TENSOR_TOO_LARGE


@pytest.mark.parametrize("fields", ["inputs", "outputs"])
def test_what_names_a_region_is_answered_on_a_thread_which_has_room_for_it(fields: str):
    request = build_request(outputs=[{"name": "output"}])
    inference = Inference(ReshapeService(DEFAULT_LIMITS), SharedMemory(None), DEFAULT_LIMITS)
    assert inference.answer_light(request.SerializeToString()) is not None
    getattr(request, fields)[0].parameters[REGION].string_param = "one"
    raw = request.SerializeToString()
    assert (inference.answer_light(raw), inference.takes_long(raw)) == (None, True)
    assert SIX in raw


def build_request_with_region(fields: str) -> InferMessage:
    """Returns a request whose input or output lies in a region."""
    request = build_request(outputs=[{"name": "output"}])
    if fields == "inputs":
        request.ClearField("raw_input_contents")
    parameters = getattr(request, fields)[0].parameters
    parameters[REGION].string_param = "one"
    parameters[SIZE].int64_param = len(SIX)
    return request


@pytest.mark.parametrize("fields", ["inputs", "outputs"])
def test_the_tensor_is_blamed_whose_region_cannot_be_used(tmp_path: Path, fields: str):
    request = build_request_with_region(fields)
    inference = Inference(ReshapeService(DEFAULT_LIMITS), SharedMemory(tmp_path), DEFAULT_LIMITS)
    with pytest.raises(ReshapeError) as caught:
        inference.answer(request.SerializeToString())
    assert (caught.value.reason, caught.value.field) == (Reason.REGION_UNKNOWN, f"{fields}[0].parameters")


@pytest.mark.parametrize("fields", ["inputs", "outputs"])
def test_an_offset_that_no_signed_number_holds_is_out_of_range(tmp_path: Path, fields: str):
    (tmp_path / "file").write_bytes(SIX)
    memory = SharedMemory(tmp_path)
    memory.register("one", Region("file", 0, len(SIX)))
    request = build_request_with_region(fields)
    getattr(request, fields)[0].parameters[OFFSET].uint64_param = 2**63
    inference = Inference(ReshapeService(DEFAULT_LIMITS), memory, DEFAULT_LIMITS)
    with pytest.raises(ReshapeError) as caught:
        inference.answer(request.SerializeToString())
    assert (caught.value.reason, caught.value.field) == (Reason.REGION_OUT_OF_RANGE, f"{fields}[0].parameters")
