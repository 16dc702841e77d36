"""Conversion between the message Tensor and TensorView."""

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


def test_tensor_encoding_matches_the_protobuf_class():
    for tensor in (TENSOR, STRIDED):
        message = tensor_pb2.Tensor(
            data_type=tensor_pb2.DATA_TYPE_F32, dims=tensor.dims, strides=tensor.strides, data=bytes(PAYLOAD)
        )
        assert b"".join(encode_tensor(tensor)) == message.SerializeToString()
        assert encode_tensor(tensor)[-1] is PAYLOAD  # not a copy
        header = build_tensor_header(tensor)
        assert header.data == b""
        assert decode_tensor(header, PAYLOAD, "data") == tensor


def test_known_data_type_numbers_are_decoded_and_others_rejected():
    assert [decode_data_type(encode_data_type(one), "data.data_type") for one in DataType] == list(DataType)
    for number in (0, len(DataType) + 1, -1):
        with pytest.raises(InvalidRequestError) as caught:
            decode_data_type(number, "data.data_type")
        assert (caught.value.reason, caught.value.field) == (Reason.DATA_TYPE_UNSUPPORTED, "data.data_type")
        assert caught.value.metadata == {"value": str(number)}
