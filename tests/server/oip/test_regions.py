"""The region of a tensor, from the parameters of a request."""

from pathlib import Path
from struct import pack, unpack
from typing import Any

import pytest

from inference_requests import SIX, build_question, build_request, read_response
from tensor_reshape.rules.errors import LimitError, Reason, ReshapeError
from tensor_reshape.rules.limits import DEFAULT_LIMITS
from tensor_reshape.server.oip.inferences import Inference
from tensor_reshape.server.oip.messages import find_class
from tensor_reshape.server.oip.regions import Location, find_location
from tensor_reshape.server.oip.shared_memory import Region, SharedMemory
from tensor_reshape.server.service.methods import ReshapeService

REGION, SIZE, OFFSET = "shared_memory_region", "shared_memory_byte_size", "shared_memory_offset"
ONE = {"string_param": "one"}


def find(**parameters: Any) -> Location | None:
    output = find_class("ModelInferRequest")(outputs=[{"name": "output", "parameters": parameters}]).outputs[0]  # type: ignore[attr-defined] # a message class from a pool
    return find_location(output.parameters, "outputs[0]", DEFAULT_LIMITS)


def test_tensor_without_a_region_parameter_is_in_the_message():
    assert find(**{SIZE: {"int64_param": 1}}) is None


def test_shared_memory_location_has_region_offset_and_size():
    for kind in ("int64_param", "uint64_param"):
        assert find(**{REGION: ONE, SIZE: {kind: 8}, OFFSET: {kind: 4}}) == Location("one", 4, 8)
    assert find(**{REGION: ONE, SIZE: {"int64_param": 8}}) == Location("one", 0, 8)


def test_invalid_shared_memory_parameters_are_rejected():
    for parameters in (
        {REGION: ONE},
        {REGION: {"int64_param": 1}, SIZE: {"int64_param": 1}},
        {REGION: ONE, SIZE: {"string_param": "1"}},
        {REGION: ONE, SIZE: {}},
        {REGION: ONE, SIZE: {"int64_param": -1}},
        {REGION: ONE, SIZE: {"int64_param": 1}, OFFSET: {"int64_param": -(2**63)}},
        {REGION: ONE, SIZE: {"int64_param": 1}, OFFSET: {"bool_param": True}},
    ):
        with pytest.raises(ReshapeError) as caught:
            pytest.fail(f"{parameters} gives {find(**parameters)}")
        assert (caught.value.reason, caught.value.field) == (Reason.PARAMETER_INVALID, "outputs[0].parameters")


def test_shared_memory_tensor_above_the_output_limit_is_rejected():
    most = DEFAULT_LIMITS.max_output_bytes
    assert find(**{REGION: ONE, SIZE: {"int64_param": most}}) == Location("one", 0, most)
    for size in (most + 1, 2**63 - 1):
        with pytest.raises(LimitError) as caught:
            find(**{REGION: ONE, SIZE: {"int64_param": size}})
        assert caught.value.reason == Reason.TENSOR_TOO_LARGE


@pytest.mark.parametrize("fields", ["inputs", "outputs"])
def test_request_with_shared_memory_runs_on_a_thread(tmp_path: Path, fields: str):
    (tmp_path / "file").write_bytes(SIX)
    memory = SharedMemory(tmp_path)
    inference = Inference(ReshapeService(DEFAULT_LIMITS), memory, DEFAULT_LIMITS)
    request = build_request(outputs=[{"name": "output"}])
    assert inference.respond_light(request.SerializeToString()) is not None

    parameters = getattr(request, fields)[0].parameters
    parameters[REGION].string_param = "one"
    raw = request.SerializeToString()
    assert (inference.respond_light(raw), inference.takes_long(raw)) == (None, True)

    if fields == "inputs":
        request.ClearField("raw_input_contents")
    parameters[SIZE].int64_param = len(SIX)
    with pytest.raises(ReshapeError) as unknown:
        inference.respond(request.SerializeToString())
    memory.register("one", Region("file", 0, len(SIX)))
    parameters[OFFSET].uint64_param = 2**63  # above the largest signed number
    with pytest.raises(ReshapeError) as beyond:
        inference.respond(request.SerializeToString())
    assert (unknown.value.reason, beyond.value.reason) == (Reason.REGION_UNKNOWN, Reason.REGION_OUT_OF_RANGE)
    assert unknown.value.field == beyond.value.field == f"{fields}[0].parameters"


def test_infer_shape_model_rereads_dims_from_shared_memory(tmp_path: Path):
    memory = SharedMemory(tmp_path)
    inference = Inference(ReshapeService(DEFAULT_LIMITS), memory, DEFAULT_LIMITS)
    request = build_question([2, 3], "[-1]", raw_input_contents=[])
    request.inputs[0].parameters[REGION].string_param = "one"
    request.inputs[0].parameters[SIZE].int64_param = 16
    (tmp_path / "file").write_bytes(bytes(16))
    memory.register("one", Region("file", 0, 16))
    answers = []
    for dims in ((2, 3), (4, 5)):
        (tmp_path / "file").write_bytes(pack("<2q", *dims))
        response = read_response(inference.respond(request.SerializeToString()))
        answers.append(unpack("<q", response.raw_output_contents[0]))
    assert answers == [(6,), (20,)]
