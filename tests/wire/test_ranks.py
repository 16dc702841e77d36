"""The rank of an output is read from the first bytes of a response."""

from hypothesis import given
from hypothesis import strategies as st

from tensor_reshape.rules.dtypes import DataType
from tensor_reshape.v1 import reshape_pb2, tensor_pb2
from tensor_reshape.wire.ranks import find_inferred_rank, find_output_rank, find_stream_rank
from tensor_reshape.wire.reshapes import encode_response_header
from tensor_reshape.wire.tensors import encode_data_type

KEPT_BYTES = 1024
MAX = 2**63 - 1
DIMS = st.lists(st.sampled_from([0, 1, 2, 127, 128, 2**31, MAX]), max_size=64)


@given(dims=DIMS, data_type=st.sampled_from(DataType), size=st.sampled_from([0, 1, 200, 2**20]))
def test_output_rank_is_read_from_the_response_header(dims: list[int], data_type: DataType, size: int):
    answer = encode_response_header(data_type, dims, size) + bytes(size)
    assert find_output_rank(answer[:KEPT_BYTES]) == len(dims)


@given(dims=DIMS, data_type=st.sampled_from(DataType))
def test_stream_output_rank_is_read_from_the_first_response(dims: list[int], data_type: DataType):
    output = tensor_pb2.Tensor(data_type=encode_data_type(data_type), dims=dims)
    answer = reshape_pb2.StreamReshapeResponse(output=output).SerializeToString()
    assert find_stream_rank(answer) == len(dims)


@given(rank=st.integers(0, 64), named=st.booleans())
def test_inferred_output_rank_is_read_from_the_response(rank: int, named: bool):
    names = [tensor_pb2.PartialDim(index=index, symbol=tensor_pb2.Symbol(name="N")) for index in range(rank)]
    shape = tensor_pb2.Shape(dims=[-1] * rank, partial=names) if named else tensor_pb2.Shape(dims=[2**40] * rank)
    answer = reshape_pb2.InferShapeResponse(shape=shape).SerializeToString()
    assert find_inferred_rank(answer) == rank


@given(dims=DIMS, share=st.floats(0, 1))
def test_rank_of_a_truncated_response_is_correct_or_none(dims: list[int], share: float):
    answer = encode_response_header(DataType.F32, dims, 4)
    assert find_output_rank(answer[: int(len(answer) * share)]) in {None, len(dims)}


@given(answer=st.binary(max_size=64))
def test_output_rank_reader_accepts_any_bytes_without_an_exception(answer: bytes):
    for find in (find_output_rank, find_stream_rank, find_inferred_rank):
        assert find(answer) in {None, *range(65)}


def test_output_rank_reader_returns_none_for_an_unknown_rank():
    answer = reshape_pb2.InferShapeResponse(origins=[reshape_pb2.Origin(text="a")]).SerializeToString()
    assert find_inferred_rank(answer) is None
