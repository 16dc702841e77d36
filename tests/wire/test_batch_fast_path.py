"""The fast path of batches reads and writes the same bytes as the generated classes."""

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from dim_strategies import DIMS
from hypothesis_profiles import examples
from tensor_reshape.rules.dims import ANY, AnyDim, Dim, Expression, Symbol, name_dim
from tensor_reshape.rules.questions import ShapeAnswer
from tensor_reshape.v1 import reshape_pb2, tensor_pb2
from tensor_reshape.wire import batch_fast_path
from tensor_reshape.wire.batch_fast_path import encode_dims, read_compact_item
from tensor_reshape.wire.inference import build_infer_response


def multiply(*names: str, below: Sequence[str] = ()) -> Dim:
    return Dim(ANY, Expression(1, tuple(map(Symbol, names)), 1, tuple(map(Symbol, below))))


@examples(300)
@given(st.lists(DIMS, max_size=5))
def test_fast_path_dim_encoding_matches_the_protobuf_class(dims: list[object]):
    answer = ShapeAnswer(tuple(dims))  # type: ignore[arg-type] # the strategy draws valid dims
    raw = encode_dims(answer.dims or ())
    assert tensor_pb2.Shape.FromString(raw) == build_infer_response(answer).shape


@examples(500)
@given(DIMS, DIMS)
def test_dim_cache_keys_are_equal_only_for_equal_dims(one: AnyDim, other: AnyDim):
    assert (batch_fast_path._identify_dim(one) == batch_fast_path._identify_dim(other)) <= (one == other)


def test_dim_cache_keys_differ_for_names_with_separators():
    pairs: list[tuple[AnyDim, AnyDim]] = [
        (name_dim("a", 1, 2), name_dim("a,1:b", 1, 2)),
        (multiply("a,1:b"), multiply("a", "b")),
        (multiply("a", "1:b"), multiply("a,3:1", "b")),
        (multiply("a", below=("b",)), multiply("a", "b")),
        (None, name_dim("None")),
    ]
    for one, other in pairs:
        assert batch_fast_path._identify_dim(one) != batch_fast_path._identify_dim(other), (one, other)


def test_dim_cache_keys_are_str_or_bytes():
    encode_dims([5, 10**6, None, name_dim("N", 2, 3), multiply("a", "b")])
    assert {type(key) for key in (*batch_fast_path._ENCODED, *batch_fast_path._DIMS)} <= {str, bytes}


def build_item(dims: list[tensor_pb2.Dim]) -> bytes:
    question = reshape_pb2.InferShapeRequest(
        operation=reshape_pb2.OPERATION_RESHAPE,
        special_zero=True,
        data=tensor_pb2.TensorSpec(shape=tensor_pb2.Shape(dims=dims)),
        shape=tensor_pb2.Shape(dims=[tensor_pb2.Dim(value=-1)]),
    )
    return reshape_pb2.BatchInferShapeItem(question=question).SerializeToString()


def test_long_dim_encoding_is_not_cached():
    long = tensor_pb2.Dim(symbol=tensor_pb2.Symbol(name="N" * 64))
    request = read_compact_item(build_item([long]))
    assert request is not None
    assert request.question.data == [name_dim("N" * 64)]
    assert long.SerializeToString() not in batch_fast_path._DIMS


def test_dim_cache_size_is_bounded():
    count, most = (
        8,
        batch_fast_path._CACHE_BYTES // 400,
    )  # dims of an item that stays short, and dims of a cache generation
    for number in range(10**6, 10**6 + 2 * most, count):
        dims = [*range(number, number + count)]
        request = read_compact_item(build_item([tensor_pb2.Dim(value=dim) for dim in dims]))
        assert request is not None
        assert request.question.data == dims
        encode_dims(dims)
    assert len(batch_fast_path._DIMS) <= most
    assert len(batch_fast_path._ENCODED) <= most


def test_batch_item_with_optional_fields_skips_the_fast_path():
    plain = build_item([tensor_pb2.Dim(value=2), tensor_pb2.Dim(value=3)])
    assert read_compact_item(plain) is not None
    for extra in (b"\x10\x00", b"\x28\x00", b"\x7a\x00"):  # `data_from`, `explain`, and a field of a later version
        assert read_compact_item(plain + extra) is None
