"""A stock grpcio channel that sends the bytes of one request: the same client for our server and the C++ one."""

import grpc
import numpy as np

from benchmarks.clients.sessions import Array, Job, ThreadSession
from tensor_reshape.v1 import reshape_pb2, tensor_pb2

METHOD = "/tensor_reshape.v1.ReshapeService/StaticReshape"
_TENSOR_TAG = b"\x7a"  # field 15, as long as its length says
_OPTIONS = (
    ("grpc.max_send_message_length", -1),
    ("grpc.max_receive_message_length", -1),
    ("grpc.use_local_subchannel_pool", 1),  # a connection for every client
)


class ChannelConnection:
    """One channel."""

    def __init__(self, job: Job, request: bytes) -> None:
        """Makes the channel."""
        self._request = request
        self._channel = grpc.insecure_channel(job.address, _OPTIONS)
        self._send: grpc.UnaryUnaryMultiCallable[bytes, bytes] = self._channel.unary_unary(METHOD)

    def call(self) -> bytes:
        """One call."""
        return self._send(self._request)

    def read(self, answer: bytes) -> Array:
        """Parses the response."""
        output = reshape_pb2.StaticReshapeResponse.FromString(answer).output
        return np.frombuffer(output.data, np.float32).reshape(output.dims)

    def close(self) -> None:
        """Disconnects."""
        self._channel.close()


def encode_request(job: Job) -> bytes:
    """Returns the request in its canonical form."""
    head = reshape_pb2.StaticReshapeRequest(shape=job.target, special_zero=False).SerializeToString()
    tensor = tensor_pb2.Tensor(data_type=tensor_pb2.DATA_TYPE_F32, dims=job.array.shape).SerializeToString()
    if job.array.nbytes:
        tensor += _TENSOR_TAG + _encode_varint(job.array.nbytes)
    length = _encode_varint(len(tensor) + job.array.nbytes)
    return b"".join((head, _TENSOR_TAG, length, tensor, job.array.view(np.uint8).data))


def open_session(job: Job, variant: str) -> ThreadSession:
    """Opens channels that have a connection each; there is one variant."""
    del variant
    request = encode_request(job)
    return ThreadSession(job, lambda: ChannelConnection(job, request))


def _encode_varint(number: int) -> bytes:
    groups = []
    while number > 0x7F:
        groups.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*groups, number])
