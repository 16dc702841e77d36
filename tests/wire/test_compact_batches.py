"""The short way to write and to read questions and answers gives what the generated classes give."""

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from dim_strategies import DIMS
from hypothesis_profiles import examples
from tensor_reshape.rules.dims import ANY, AnyDim, Dim, Expression, Symbol, name_dim
from tensor_reshape.rules.errors import ReshapeError
from tensor_reshape.rules.questions import ShapeAnswer
from tensor_reshape.v1 import reshape_pb2, tensor_pb2
from tensor_reshape.wire import compact_batches
from tensor_reshape.wire.compact_batches import (
    encode_compact_answer,
    encode_dims,
    read_compact_answer,
    read_compact_item,
)
from tensor_reshape.wire.inference import build_infer_response, read_infer_request, read_infer_response


def multiply(*names: str, below: Sequence[str] = ()) -> Dim:
    return Dim(ANY, Expression(1, tuple(map(Symbol, names)), 1, tuple(map(Symbol, below))))


bytes_of_a_message = st.integers(0, 255)


def build_item(operation: int, special_zero: bool, data: bytes, target: bytes) -> bytes:
    message = reshape_pb2.BatchInferShapeItem()
    message.question.operation = operation  # type: ignore[assignment] # a number
    message.question.special_zero = special_zero
    message.question.data.shape.ParseFromString(data)
    message.question.shape.ParseFromString(target)
    return message.SerializeToString()


def change(raw: bytes, at: int, byte: int) -> bytes:
    place = at % max(len(raw), 1)
    return raw[:place] + bytes([byte]) + raw[place + 1 :]


@examples(300)
@given(st.lists(DIMS, max_size=5))
def test_dims_are_written_as_the_generated_class_reads_them(dims: list[object]):
    answer = ShapeAnswer(tuple(dims))  # type: ignore[arg-type] # drawn as dims
    raw = encode_dims(answer.dims or ())
    assert tensor_pb2.Shape.FromString(raw) == build_infer_response(answer).shape


@examples(500)
@given(DIMS, DIMS)
def test_dims_are_kept_under_texts_of_their_own(one: AnyDim, other: AnyDim):
    assert (compact_batches._identify_dim(one) == compact_batches._identify_dim(other)) <= (one == other)


def test_dims_with_odd_names_are_kept_apart():
    pairs: list[tuple[AnyDim, AnyDim]] = [
        (name_dim("a", 1, 2), name_dim("a,1:b", 1, 2)),
        (multiply("a,1:b"), multiply("a", "b")),
        (multiply("a", "1:b"), multiply("a,3:1", "b")),
        (multiply("a", below=("b",)), multiply("a", "b")),
        (None, name_dim("None")),
    ]
    for one, other in pairs:
        assert compact_batches._identify_dim(one) != compact_batches._identify_dim(other), (one, other)


def test_what_is_kept_has_keyed_hashes():
    encode_dims([5, 10**6, None, name_dim("N", 2, 3), multiply("a", "b")])
    assert {type(key) for key in (*compact_batches._ENCODED, *compact_batches._DIMS)} <= {str, bytes}


@examples(1200)
@given(
    st.integers(0, 4),
    st.booleans(),
    st.lists(DIMS, max_size=4),
    st.lists(DIMS, max_size=4),
    st.lists(st.tuples(st.integers(0, 80), bytes_of_a_message), max_size=2),
)
def test_an_item_is_read_as_the_generated_class_reads_it(
    operation: int, special_zero: bool, data: list[object], target: list[object], changes: list[tuple[int, int]]
):
    raw = build_item(operation, special_zero, encode_dims(data), encode_dims(target))  # type: ignore[arg-type]
    for at, byte in changes:
        raw = change(raw, at, byte)
    try:
        plain = read_compact_item(raw)
    except ReshapeError:
        plain = None  # the long way refuses it as well, with the same words
    if plain is None:
        return
    message = reshape_pb2.BatchInferShapeItem.FromString(raw)
    whole = read_infer_request(message.question)
    assert not message.HasField("data_from")
    assert plain == whole


@examples(1000)
@given(st.lists(DIMS, max_size=4), st.lists(st.tuples(st.integers(0, 60), bytes_of_a_message), max_size=2))
def test_an_answer_is_read_as_the_generated_class_reads_it(dims: list[object], changes: list[tuple[int, int]]):
    raw = encode_compact_answer(ShapeAnswer(tuple(dims)))  # type: ignore[arg-type] # drawn as dims
    assert raw is not None
    for at, byte in changes:
        raw = change(raw, at, byte)
    try:
        plain = read_compact_answer(raw)
    except ReshapeError:
        return
    if plain is not None:
        assert plain == read_infer_response(reshape_pb2.BatchInferShapeResult.FromString(raw).answer)


def test_an_item_with_more_fields_is_not_compact():
    plain = build_item(3, True, encode_dims([2, 3]), encode_dims([-1]))
    assert read_compact_item(plain) is not None
    for extra in (b"\x10\x00", b"\x28\x00", b"\x7a\x00"):  # a link, explain, a later field
        assert read_compact_item(plain + extra) is None
