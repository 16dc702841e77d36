"""InferShape requests and responses round-trip, and messages of generated classes are read."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strategies import DIMS, REQUESTS, TERMS
from tensor_reshape.rules.conditions import Condition, ConditionKind
from tensor_reshape.rules.dims import AnyDim, Dim, Interval, name_dim
from tensor_reshape.rules.errors import InvalidRequestError, Reason, ReshapeError
from tensor_reshape.rules.inference import answer_question
from tensor_reshape.rules.limits import MAX_HEADER_BYTES
from tensor_reshape.rules.operations import RESHAPE
from tensor_reshape.rules.questions import DimGroup, Kind, Origin, Question, ShapeAnswer, ShapeRequest
from tensor_reshape.v1 import reshape_pb2, tensor_pb2
from tensor_reshape.wire.inference import (
    build_infer_request,
    build_infer_response,
    decode_infer_request,
    decode_infer_response,
)

MAX = 2**63 - 1

texts = st.text(max_size=20)
origins = st.builds(Origin, st.sampled_from(Kind), texts, st.none() | st.integers(0, 63), texts, texts)
lawful = st.none() | st.integers(0, MAX) | st.sampled_from([name_dim("N"), name_dim("M", 1, 9), Dim(Interval(2, 8))])
lawful_shapes = st.none() | st.lists(lawful, max_size=4).map(tuple)
numbers = st.none() | st.integers(0, MAX)
conditions = st.builds(
    Condition,
    st.sampled_from(ConditionKind),
    TERMS,
    st.none() | TERMS,
    numbers,
    numbers,
    st.none() | TERMS,
    st.integers(3, 5),
    texts,
)
sizes = st.lists(st.integers(0, 2**63 - 1), max_size=3).map(tuple)
spans = st.tuples(st.integers(0, 63), st.integers(1, 3)).map(lambda pair: range(pair[0], sum(pair))) | st.just(range(0))
answers = st.builds(
    ShapeAnswer,
    lawful_shapes,
    st.lists(conditions, max_size=2).map(tuple),
    st.lists(origins, max_size=3).map(tuple),
    st.booleans(),
    st.lists(st.builds(DimGroup, spans, spans), max_size=3).map(tuple),
)


def decode(**fields: object) -> ShapeRequest:
    known = {"operation": reshape_pb2.OPERATION_RESHAPE, "data": tensor_pb2.TensorSpec(), "special_zero": True}
    message = reshape_pb2.InferShapeRequest(**{**known, **fields})  # type: ignore[arg-type] # the fields depend on the test
    return decode_infer_request(message.SerializeToString())


def reject(**fields: object) -> tuple[str, str]:
    with pytest.raises(InvalidRequestError) as caught:
        decode(**fields)
    return caught.value.reason, caught.value.field


@given(REQUESTS)
def test_infer_request_encoding_matches_the_protobuf_class(request: ShapeRequest):
    raw = build_infer_request(request).SerializeToString()
    assert decode_infer_request(raw) == request
    assert reshape_pb2.InferShapeRequest.FromString(raw).SerializeToString() == raw


@given(answers)
def test_encoded_infer_response_is_decoded_unchanged(answer: ShapeAnswer):
    assert decode_infer_response(build_infer_response(answer).SerializeToString()) == answer


@given(REQUESTS, st.lists(st.integers(-1, 4) | DIMS, max_size=3), lawful_shapes)
def test_every_inference_result_can_be_encoded(
    request: ShapeRequest, target: list[AnyDim], data: tuple[AnyDim, ...] | None
):
    lawful = Question(operation=RESHAPE, data=data, target=target, special_zero=True)
    for asked in (request, ShapeRequest(lawful, True)):
        try:
            message = build_infer_response(answer_question(asked))
        except ReshapeError:
            continue
        assert build_infer_response(decode_infer_response(message.SerializeToString())) == message


def test_unknown_kind_of_condition_leaves_the_conditions_incomplete():
    data: list[AnyDim] = [name_dim("N"), 4]
    question = Question(operation=RESHAPE, data=data, target=[-1, 8], special_zero=False)
    message = build_infer_response(answer_question(ShapeRequest(question)))
    message.conditions.add(kind=reshape_pb2.Condition.Kind.ValueType(1000))
    answer = decode_infer_response(message.SerializeToString())
    assert [str(condition) for condition in answer.conditions] == ["2 divides N"]
    assert (message.conditions_complete, answer.conditions_complete) == (True, False)


def test_undecodable_infer_request_is_rejected():
    no_type = tensor_pb2.TensorSpec(data_type=tensor_pb2.DataType.ValueType(1000))
    assert reject(data=None) == (Reason.FIELD_MISSING, "data")
    assert reject(data=no_type) == (Reason.DATA_TYPE_UNSUPPORTED, "data.data_type")
    assert [reject(operation=number) for number in (0, 5)] == [(Reason.OPERATION_UNSPECIFIED, "operation")] * 2
    for raw, reason in [
        (b"\x08", Reason.MESSAGE_MALFORMED),
        (b"", Reason.OPERATION_UNSPECIFIED),
        (bytes(MAX_HEADER_BYTES + 1), Reason.HEADER_TOO_LARGE),
    ]:
        with pytest.raises(ReshapeError) as caught:
            decode_infer_request(raw)
        assert caught.value.reason == reason
