"""Requests and responses of InferShape: what is encoded is read back, and what other languages send is read."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dim_strategies import DIMS, REQUESTS, S64, TERMS
from tensor_reshape.rules.dims import AnyDim, Dim, Interval, Symbol, make_expression, name_dim
from tensor_reshape.rules.dtypes import DataType
from tensor_reshape.rules.errors import InvalidRequestError, Reason, ReshapeError
from tensor_reshape.rules.inference import answer_question
from tensor_reshape.rules.operations import RESHAPE, STATIC_RESHAPE
from tensor_reshape.rules.questions import Equality, Kind, Origin, Question, ShapeAnswer, ShapeRequest
from tensor_reshape.rules.views import View, ViewPossibility
from tensor_reshape.v1 import reshape_pb2, tensor_pb2
from tensor_reshape.wire.inference import (
    build_infer_request,
    build_infer_response,
    decode_infer_request,
    decode_infer_response,
)

MAX = 2**63 - 1
ONE = Question(operation=STATIC_RESHAPE, data=[1], target=[1], special_zero=False)

texts = st.text(max_size=20)
origins = st.builds(Origin, st.sampled_from(Kind), texts, st.none() | st.integers(0, 63), texts, texts)
views = st.builds(View, st.sampled_from(ViewPossibility), st.none() | st.lists(S64, max_size=4).map(tuple))
lawful = st.none() | st.integers(0, MAX) | st.sampled_from([name_dim("N"), name_dim("M", 1, 9), Dim(Interval(2, 8))])
lawful_shapes = st.none() | st.lists(lawful, max_size=4).map(tuple)
answers = st.builds(
    ShapeAnswer,
    lawful_shapes,
    st.lists(st.builds(Equality, TERMS, TERMS, st.booleans()), max_size=2).map(tuple),
    st.lists(origins, max_size=3).map(tuple),
    st.none() | views,
)


def travel(request: ShapeRequest) -> ShapeRequest:
    return decode_infer_request(build_infer_request(request).SerializeToString())


def decode(**fields: object) -> ShapeRequest:
    known = {"operation": reshape_pb2.OPERATION_RESHAPE, "data": tensor_pb2.TensorSpec(), "special_zero": True}
    message = reshape_pb2.InferShapeRequest(**{**known, **fields})  # type: ignore[arg-type] # fields of a test
    return decode_infer_request(message.SerializeToString())


@settings(deadline=None)
@given(REQUESTS)
def test_a_request_is_read_back(request: ShapeRequest):
    assert travel(request) == request


@settings(deadline=None)
@given(REQUESTS)
def test_a_request_is_what_the_generated_class_writes(request: ShapeRequest):
    raw = build_infer_request(request).SerializeToString()
    assert reshape_pb2.InferShapeRequest.FromString(raw).SerializeToString() == raw


@settings(deadline=None)
@given(answers)
def test_an_answer_is_read_back(answer: ShapeAnswer):
    assert decode_infer_response(build_infer_response(answer).SerializeToString()) == answer


def answer(request: ShapeRequest) -> ShapeAnswer | None:
    try:
        return answer_question(request)
    except ReshapeError:
        return None


@settings(deadline=None)
@given(REQUESTS, st.lists(st.integers(-1, 4) | DIMS, max_size=3), lawful_shapes, st.integers(0, MAX))
def test_whatever_is_answered_can_be_sent(
    request: ShapeRequest, target: list[AnyDim], data: tuple[AnyDim, ...] | None, stride: int
):
    lawful = Question(operation=RESHAPE, data=data, target=target, special_zero=True)
    for asked in (request, ShapeRequest(lawful, True, [stride] * len(data or ()))):
        found = answer(asked)
        if found is not None:
            message = build_infer_response(found)
            assert build_infer_response(decode_infer_response(message.SerializeToString())) == message


# data, target, strides
FAR_STRIDES = {
    "of an empty output": ([0], [0, 2**62, 2**62, 4], [1]),
    "of a volume beyond s64": ([2**62, 2**62], [4, 2**60, 2**62], [2**62, 1]),
}


@pytest.mark.parametrize(("data", "target", "strides"), FAR_STRIDES.values(), ids=FAR_STRIDES.keys())
def test_strides_of_a_view_that_s64_cannot_hold_do_not_fail_the_call(
    data: list[int], target: list[int], strides: list[int]
):
    question = Question(operation=RESHAPE, data=data, target=target, special_zero=False)
    message = build_infer_response(answer_question(ShapeRequest(question, strides=strides)))
    assert [dim.value for dim in message.shape.dims] == target


def test_data_that_is_mentioned_may_have_an_unknown_rank():
    assert decode().question.data is None


def test_data_that_is_not_mentioned_is_missing():
    with pytest.raises(InvalidRequestError) as caught:
        decode(data=None)
    assert (caught.value.reason, caught.value.field) == (Reason.FIELD_MISSING, "data")


def test_an_absent_target_is_one_of_which_nothing_is_known():
    assert decode().question.target is None


def test_a_target_without_items_is_not_an_absent_one():
    assert decode(shape=tensor_pb2.Shape()).question.target == []


def test_an_expected_shape_without_dims_is_not_an_absent_one():
    assert decode(expected_shape=tensor_pb2.Shape()).question.expected == []


def test_strides_without_items_are_not_absent_ones():
    assert decode(data_strides=reshape_pb2.Strides()).strides == ()


def test_absent_strides_ask_for_no_view():
    assert decode().strides is None


def test_an_absent_explain_is_false():
    assert decode().explain is False


def test_an_absent_special_zero_is_left_to_the_rules():
    assert decode(special_zero=None).question.special_zero is None


def test_a_type_without_a_shape_is_read():
    spec = tensor_pb2.TensorSpec(data_type=tensor_pb2.DATA_TYPE_F32)
    assert decode(data=spec).question.data_type == DataType.F32


@pytest.mark.parametrize(
    ("field", "path"), [("data", "data.dims[0]"), ("shape", "shape[0]"), ("expected_shape", "expected_shape.dims[0]")]
)
def test_a_dim_of_a_kind_to_come_is_refused_where_it_stands(field: str, path: str):
    later = tensor_pb2.Shape(dims=[tensor_pb2.Dim.FromString(b"\x2a\x00")])
    value = tensor_pb2.TensorSpec(shape=later) if field == "data" else later
    with pytest.raises(InvalidRequestError) as caught:
        decode(**{field: value})
    assert (caught.value.reason, caught.value.field) == (Reason.DIM_UNKNOWN, path)


def test_unknown_fields_of_a_request_are_ignored():
    raw = build_infer_request(ShapeRequest(ONE)).SerializeToString()
    assert decode_infer_request(b"\xa8\x1f\x05" + raw + b"\xb2\x1f\x03abc") == ShapeRequest(ONE)


def test_a_request_may_come_in_two_pieces():
    first = reshape_pb2.InferShapeRequest(
        operation=reshape_pb2.OPERATION_STATIC_RESHAPE, data=tensor_pb2.TensorSpec(shape=tensor_pb2.Shape())
    )
    second = reshape_pb2.InferShapeRequest(
        special_zero=False,
        data=tensor_pb2.TensorSpec(shape=tensor_pb2.Shape(dims=[tensor_pb2.Dim(value=1)])),
        shape=tensor_pb2.Shape(dims=[tensor_pb2.Dim(value=1)]),
    )
    assert decode_infer_request(first.SerializeToString() + second.SerializeToString()) == ShapeRequest(ONE)


def test_an_answer_of_unknown_rank_has_no_shape():
    assert not build_infer_response(ShapeAnswer(None)).HasField("shape")


def test_an_answer_of_rank_0_has_a_shape():
    assert build_infer_response(ShapeAnswer(())).HasField("shape")


def test_an_answer_that_is_known_has_values_alone():
    message = build_infer_response(ShapeAnswer((0, 2, MAX)))
    assert [(dim.WhichOneof("kind"), dim.value) for dim in message.shape.dims] == [
        ("value", 0),
        ("value", 2),
        ("value", MAX),
    ]


def test_an_equality_of_numbers_1_is_written_without_them():
    left, right = make_expression(1, [Symbol("N")]), make_expression(1, [Symbol("M")])
    message = build_infer_response(ShapeAnswer((), (Equality(left, right, unless_empty=True),)))
    assert message.equalities[0] == reshape_pb2.Equality(
        left=tensor_pb2.Expression(factors=[tensor_pb2.Symbol(name="N")]),
        right=tensor_pb2.Expression(factors=[tensor_pb2.Symbol(name="M")]),
        unless_empty=True,
    )


@pytest.mark.parametrize(
    ("dim", "reason"),
    [
        (tensor_pb2.Dim(value=-1), Reason.DIM_OUT_OF_RANGE),
        (tensor_pb2.Dim(interval=tensor_pb2.Interval(min=2, max=1)), Reason.INTERVAL_EMPTY),
        (tensor_pb2.Dim(symbol=tensor_pb2.Symbol()), Reason.EXPRESSION_INVALID),
        (tensor_pb2.Dim.FromString(b"\x2a\x00"), Reason.DIM_UNKNOWN),
    ],
    ids=str,
)
def test_an_answer_that_is_no_shape_is_refused(dim: tensor_pb2.Dim, reason: Reason):
    raw = reshape_pb2.InferShapeResponse(shape=tensor_pb2.Shape(dims=[dim])).SerializeToString()
    with pytest.raises(InvalidRequestError) as caught:
        decode_infer_response(raw)
    assert caught.value.reason == reason


def test_an_origin_of_a_kind_to_come_keeps_its_text():
    origin = reshape_pb2.Origin(kind=reshape_pb2.Origin.Kind.ValueType(99), text="by other means")
    raw = reshape_pb2.InferShapeResponse(shape=tensor_pb2.Shape(), origins=[origin]).SerializeToString()
    assert decode_infer_response(raw).origins == (Origin(Kind.UNKNOWN, "by other means"),)


@pytest.mark.parametrize("number", [0, 99])
def test_a_possibility_to_come_is_an_unknown_one(number: int):
    view = reshape_pb2.View(possibility=reshape_pb2.View.Possibility.ValueType(number))
    raw = reshape_pb2.InferShapeResponse(view=view).SerializeToString()
    assert decode_infer_response(raw).view == View(ViewPossibility.UNKNOWN)
