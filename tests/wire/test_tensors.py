"""Tensors between their message and the values that the rules read."""

import pytest

from tensor_reshape.rules.dtypes import DataType
from tensor_reshape.rules.errors import InvalidRequestError, Reason
from tensor_reshape.v1 import tensor_pb2
from tensor_reshape.wire.tensors import (
    TensorView,
    build_tensor_header,
    decode_data_type,
    decode_tensor,
    encode_data_type,
    encode_tensor,
)

PAYLOAD = memoryview(bytes(range(24)))
TENSOR = TensorView(DataType.F32, (2, 3), None, PAYLOAD)
STRIDED = TensorView(DataType.F32, (3, 2), (1, 3), PAYLOAD)


@pytest.mark.parametrize("tensor", [TENSOR, STRIDED], ids=["dense", "strided"])
def test_a_tensor_is_what_the_generated_class_writes(tensor: TensorView):
    message = tensor_pb2.Tensor(
        data_type=tensor_pb2.DATA_TYPE_F32, dims=tensor.dims, strides=tensor.strides, data=bytes(PAYLOAD)
    )
    assert b"".join(encode_tensor(tensor)) == message.SerializeToString()


def test_the_last_piece_of_a_tensor_is_its_payload_and_no_copy():
    assert encode_tensor(TENSOR)[-1] is PAYLOAD


@pytest.mark.parametrize("tensor", [TENSOR, STRIDED], ids=["dense", "strided"])
def test_a_header_says_all_but_the_bytes(tensor: TensorView):
    header = build_tensor_header(tensor)
    assert header.data == b""
    assert decode_tensor(header, PAYLOAD, "data") == tensor


@pytest.mark.parametrize("data_type", DataType, ids=str)
def test_a_data_type_is_read_back(data_type: DataType):
    assert decode_data_type(encode_data_type(data_type), "data.data_type") is data_type


@pytest.mark.parametrize("number", [0, len(DataType) + 1, -1])
def test_a_number_of_no_data_type_is_refused(number: int):
    with pytest.raises(InvalidRequestError) as caught:
        decode_data_type(number, "data.data_type")
    assert (caught.value.reason, caught.value.field) == (Reason.DATA_TYPE_UNSUPPORTED, "data.data_type")
    assert caught.value.metadata == {"value": str(number)}


@pytest.mark.parametrize(
    ("tensor", "reason"),
    [
        (TensorView(DataType.F32, (2, 4), None, PAYLOAD), Reason.DATA_SIZE_MISMATCH),
        (TensorView(DataType.F32, (2, 3), (1,), PAYLOAD), Reason.STRIDES_RANK_MISMATCH),
    ],
    ids=["too few bytes", "a stride too few"],
)
def test_a_payload_that_is_not_exactly_the_tensor_is_refused(tensor: TensorView, reason: Reason):
    with pytest.raises(InvalidRequestError) as caught:
        tensor.check_layout("data")
    assert caught.value.reason is reason
