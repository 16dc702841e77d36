"""ModelInfer has the results of the native call for each form of the request. A stream handles messages separately."""

import logging
import struct
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hypothesis_profiles import examples
from inference_requests import build_question, build_request, build_typed_request, read_response
from plain_requests import encode_reshape_request
from strategies import reshape_calls
from tensor_reshape.rules.dtypes import DataType
from tensor_reshape.rules.errors import LimitError, Reason, ReshapeError
from tensor_reshape.rules.limits import DEFAULT_LIMITS, Limits
from tensor_reshape.rules.operations import RESHAPE
from tensor_reshape.server.oip.datatypes import NAMES
from tensor_reshape.server.oip.inferences import Inference, InferSession, encode_header, encode_id, find_work
from tensor_reshape.server.oip.messages import InferMessage, find_class
from tensor_reshape.server.oip.models import MODELS
from tensor_reshape.server.oip.requests import InferCall
from tensor_reshape.server.service.method_tables import Work
from tensor_reshape.server.service.methods import ReshapeService
from tensor_reshape.wire.arrays import build_array
from tensor_reshape.wire.reshapes import ReshapeCall, decode_reshape_response
from tensor_reshape.wire.tensors import TensorView

STREAMED = find_class("ModelStreamInferResponse")
NAN = struct.pack("<I", 0x7F800001)  # a signalling NaN, which a Python float would change
OUTPUT = TensorView(DataType.BF16, (2, 0, 2**62), None, memoryview(b"12345"))
RESPONSE = find_class("ModelInferResponse")


class Outcome(NamedTuple):
    """The comparable part of a response or a rejection."""

    text: str
    shape: tuple[int, ...] = ()
    payload: bytes = b""
    request_id: str = ""


def make(limits: Limits = DEFAULT_LIMITS) -> Inference:
    return Inference(ReshapeService(limits), limits)


KEPT = make()  # its caches keep the requests of all examples


def ask(inference: Inference, raw: bytes) -> Outcome:
    try:
        light = inference.respond_light(raw)
        response = read_response(inference.respond(raw) if light is None else light)
    except ReshapeError as error:
        return Outcome(str(error.reason))
    (tensor,) = response.outputs
    return Outcome(tensor.datatype, tuple(tensor.shape), b"".join(response.raw_output_contents), response.id)


def build_twin(call: ReshapeCall, shape: TensorView | None, *, as_input: bool, flag_as_input: bool) -> InferMessage:
    question = call.question
    # The form of the numbers in a tensor. A number that the type does not have becomes another one.
    target = question.target if shape is None else build_array(shape).tolist()
    request = build_request(
        question.operation.name,
        call.data.dims,
        bytes(call.data.payload),
        datatype=NAMES[call.data.data_type],
        target=None if as_input else str(list(target)),
        special_zero=None if flag_as_input else question.special_zero,
    )
    if flag_as_input and question.special_zero is not None:
        request.inputs.add(name="special_zero", datatype="BOOL", shape=[1])
        request.raw_input_contents.append(bytes([question.special_zero]))
    if as_input:
        items = np.array(target, "<i8").tobytes() if shape is None else bytes(shape.payload)
        datatype = "INT64" if shape is None else NAMES[shape.data_type]
        request.inputs.add(name="shape", datatype=datatype, shape=[len(target)])
        request.raw_input_contents.append(items)
    return request


@examples(150)
@given(reshape_calls(), st.booleans(), st.booleans())
def test_inference_model_returns_the_result_of_the_native_call(
    drawn: tuple[ReshapeCall, TensorView | None], as_input: bool, flag_as_input: bool
):
    call, shape = drawn
    if call.data.strides is not None or call.data.data_type not in NAMES or call.question.expected is not None:
        return
    if not as_input and any(abs(item) >= 10**19 for item in call.question.target):
        return
    native = encode_reshape_request(call, shape)
    try:
        output = decode_reshape_response(ReshapeService(DEFAULT_LIMITS).execute(call.question.operation, native))
        want = Outcome(NAMES[output.data_type], tuple(output.dims), bytes(output.payload))
    except ReshapeError as error:
        want = Outcome(str(error.reason))
    request = build_twin(call, shape, as_input=as_input, flag_as_input=flag_as_input).SerializeToString()
    assert ask(make(), request) == want
    assert [ask(KEPT, request), ask(KEPT, request)] == [want, want]


def test_inference_response_has_the_id_of_its_request():
    for ids in (("", "a"), ("a", "b"), ("a", "longer"), ("longer", ""), ("a", "x" * 200), ("a", "\xfc")):
        inference = make()
        raws = [build_request(id=request_id).SerializeToString() for request_id in (*ids, *ids)]
        assert [ask(inference, raw).request_id for raw in raws] == [*ids, *ids]


def test_target_tensor_larger_than_the_data_is_not_ignored():
    inference, shapes = make(), []
    for first in (1, 4):
        request = build_request(shape=(4,), payload=bytes(4), datatype="INT8", target=None)
        request.inputs.add(name="shape", datatype="INT64", shape=[2])
        request.raw_input_contents.append(np.array([first, -1], "<i8").tobytes())
        shapes.append(ask(inference, request.SerializeToString()).shape)
    assert shapes == [(1, 4), (4, 1)]


def test_special_zero_input_larger_than_the_data_is_not_ignored():
    inference, shapes = make(), []
    for flag in (b"\0", b"\1", b"\0"):
        request = build_request(shape=(3, 0), payload=b"", target="[0,0]", special_zero=None)
        request.inputs.add(name="special_zero", datatype="BOOL", shape=[1])
        request.raw_input_contents.append(flag)
        shapes.append(ask(inference, request.SerializeToString()).shape)
    assert shapes == [(0, 0), (3, 0), (0, 0)]


def test_inference_request_keeps_the_bits_of_a_signaling_nan():
    request = build_request(shape=(1,), target="[1,1]", raw_input_contents=[])
    request.inputs[0].contents.MergeFromString(b"\x32\x04" + NAN + b"\xfa\x01\x01x")  # and an unknown field
    response = read_response(make().respond(request.SerializeToString()))
    assert NAN in response.outputs[0].contents.SerializeToString()


def test_infer_shape_model_needs_no_tensor_data():
    rows: list[tuple[list[int], str, list[int]]] = [
        ([2, 3], "[3,-1]", [3, 2]),
        ([-1, 4], "[2,-1]", [2, -1]),
        ([-1, -1], "[5,6]", [5, 6]),
        ([], "[]", []),
    ]
    for dims, target, want in rows:
        raw = build_question(dims, target).SerializeToString()
        outcome = ask(make(), raw)
        assert (outcome.text, outcome.shape) == ("INT64", (len(want),))
        assert np.frombuffer(outcome.payload, "<i8").tolist() == want
        assert read_response(make().respond(raw)).outputs[0].name == "shape"


def test_cached_inference_response_has_the_id_of_its_request():
    service = ReshapeService(DEFAULT_LIMITS)
    inference = Inference(service, DEFAULT_LIMITS)
    for target in ([3, -1], [-1]):  # two targets, so the second one is not the last request
        found = [ask(inference, build_question([2, 3], str(target), id=name).SerializeToString()) for name in "aab"]
        assert [outcome.request_id for outcome in found] == ["a", "a", "b"]
        assert len({outcome.payload for outcome in found}) == 1
    assert (service.lookups.misses, service.lookups.hits) == (2, 4)
    assert inference.statistics.read("infer_shape").successes == 6


def test_infer_shape_model_returns_the_conditions_of_unknown_dims():
    rows: list[tuple[list[int], str, dict[str, object]]] = [
        ([-1, 16, 4, 4], "[1,256]", {"conditions": '["data[0] = 1"]'}),
        ([-1, 6], "[4,-1]", {"conditions": '["2 divides data[0]"]'}),
        ([-1, 6], "[6,-1]", {}),
        ([2, 3], "[6]", {}),
    ]
    for dims, target, want in rows:
        found = read_response(make().respond(build_question(dims, target).SerializeToString())).parameters
        assert {name: value.string_param for name, value in found.items()} == want, target


def test_repeated_hard_inference_query_is_answered_from_the_cache():
    inference, raw = make(), build_question([-1, -1], "[5,6]").SerializeToString()
    session = InferSession("/method", inference)
    assert (session.estimate(raw).takes_long, inference.respond_light(raw)) == (True, None)
    answer = inference.respond(raw)
    assert (session.estimate(raw).takes_long, inference.respond_light(raw)) == (False, answer)


def test_infer_shape_model_applies_the_operation_parameter():
    texts = []
    for operation in ("reshape", "static_reshape"):
        request = build_question([4, 0, 2], "[-1,0]", special_zero=True)
        request.parameters["operation"].string_param = operation
        texts.append(ask(make(), request.SerializeToString()).text)
    assert texts == ["INT64", Reason.MINUS_ONE_WITH_ZERO_VOLUME]


def test_infer_shape_model_answers_typed_contents_with_typed_contents():
    request = build_question([2, 3], "[-1]")
    del request.raw_input_contents[:]
    request.inputs[0].contents.int64_contents.extend([2, 3])
    response = read_response(make().respond(request.SerializeToString()))
    assert list(response.outputs[0].contents.int64_contents) == [6]


LARGE = build_request(shape=(2**19,), payload=bytes(2**19), datatype="INT8", target="[-1]")
NUMBERS = build_typed_request([1] * 4096)


def test_large_inference_requests_are_processed_on_a_thread():
    for raw in (LARGE.SerializeToString(), NUMBERS.SerializeToString()):
        assert make().respond_light(raw) is None
        assert len(make().respond(raw)) > 4096


def test_inference_request_work_kind_depends_on_model_and_encoding():
    requests = (build_request(), LARGE, build_request("infer_shape"), NUMBERS)
    works = [find_work(request.SerializeToString()) for request in requests]
    assert works == [Work.TENSORS, Work.TENSORS, Work.QUERIES, Work.NUMBERS]
    # Requests with a group, or with many fields, are parsed one at a time.
    assert [find_work(raw) for raw in (b"\x3b\x3c", b"\x3a\x00" * 200)] == [Work.NUMBERS] * 2


def test_inference_request_with_too_many_numbers_is_rejected():
    limits = Limits(max_output_bytes=2**20)  # the header limit is a 64th of this
    with pytest.raises(LimitError) as caught:
        make(limits).respond(build_typed_request([1] * 2**17).SerializeToString())
    assert caught.value.reason is Reason.HEADER_TOO_LARGE


def stream(raw: bytes, service: ReshapeService | None = None) -> InferMessage:
    inference = Inference(service or ReshapeService(DEFAULT_LIMITS), DEFAULT_LIMITS)
    session = InferSession("/method", inference)
    (answer,) = session.receive(raw)
    session.finish()
    return STREAMED.FromString(answer)


def test_inference_stream_rejection_has_request_id_and_reason():
    plain = build_request(id="seven", target="[4]").SerializeToString()
    long = build_typed_request([1] * 9000, id="seven", target="[5]").SerializeToString()
    for raw in (plain, long, long + b"\x7b\x7c"):  # the last one has a group
        response = stream(raw)
        assert "elements" in response.error_message
        assert response.infer_response.id == "seven"
        assert response.infer_response.parameters["reason"].string_param == "VOLUME_MISMATCH"


def test_malformed_inference_stream_message_is_rejected():
    for raw in (b"\xff", b"\x0a\xff\xff\xff\xff\x0f"):  # not a field, and a field that is too long
        assert stream(raw).infer_response.parameters["reason"].string_param == "MESSAGE_MALFORMED"


def test_exception_on_an_inference_stream_becomes_internal_error(caplog: pytest.LogCaptureFixture):
    def fail(*_: object) -> TensorView:
        raise RuntimeError("secret")

    with caplog.at_level(logging.ERROR):
        response = stream(build_request().SerializeToString(), ReshapeService(DEFAULT_LIMITS, backend=fail))
    assert response.error_message == "internal error"
    assert "secret" in caplog.text


def test_memory_reserved_for_an_inference_stream_depends_on_message_size():
    session = InferSession("/method", make())
    large = build_request(shape=(2**20,), payload=bytes(2**20), datatype="INT8", target="[-1]")
    for request in (build_request(), large):
        raw = request.SerializeToString()
        assert session.estimate(raw) == (False, 3 * len(raw))
    question = build_question([2], "[-1]").SerializeToString()
    assert session.estimate(question) == (True, None)


def test_inference_statistics_count_requests_per_model():
    inference = make()
    for request in (build_request(), build_request(), build_request(target="[4]"), build_request("nothing")):
        ask(inference, request.SerializeToString())
    count = inference.statistics.read("reshape")
    assert (count.successes, count.failures) == (2, 1)
    assert inference.statistics.read("static_reshape").successes == 0


def test_inference_statistics_include_the_copy_into_the_response():
    def fail(_: object) -> bytes:
        raise MemoryError

    inference = make()
    with pytest.raises(MemoryError):
        inference.respond(build_request().SerializeToString(), join=fail)
    count = inference.statistics.read("reshape")
    assert (count.successes, count.failures) == (0, 1)


def test_inference_response_parts_join_to_a_valid_message():
    call = InferCall("seven", MODELS["reshape"], RESHAPE, OUTPUT, "inputs[0]", [], True, False, None)
    raw = encode_id("seven") + encode_header(call, OUTPUT) + b"12345"
    assert RESPONSE.FromString(raw) == RESPONSE(
        model_name="reshape",
        model_version="1",
        id="seven",
        outputs=[{"name": "output", "datatype": "BF16", "shape": [2, 0, 2**62]}],
        raw_output_contents=[b"12345"],
    )
    assert encode_id("") == b""
