"""Requests as bytes, for calls that are made by hand."""

from http2 import SERVICE_PATH
from tensor_reshape.v1 import reshape_pb2, tensor_pb2

STATIC_RESHAPE = f"{SERVICE_PATH}StaticReshape"


def build_static_request(size: int = 24) -> bytes:
    """Returns a StaticReshape of `size` bytes of F32."""
    data = tensor_pb2.Tensor(data_type=tensor_pb2.DATA_TYPE_F32, dims=(size // 4,), data=bytes(size))
    return reshape_pb2.StaticReshapeRequest(shape=(size // 4,), special_zero=False, data=data).SerializeToString()
