"""grpcio as everybody writes its clients: the generated stub and the generated messages."""

import grpc
import numpy as np

from benchmarks.clients.sessions import Array, Job, ThreadSession
from tensor_reshape.v1 import reshape_pb2, reshape_pb2_grpc, tensor_pb2

OPTIONS = (("grpc.max_send_message_length", -1), ("grpc.max_receive_message_length", -1))


class StubConnection:
    """One channel and its stub."""

    def __init__(self, job: Job) -> None:
        """Makes the channel."""
        self._job = job
        self._channel = grpc.insecure_channel(job.address, OPTIONS)
        self._stub = reshape_pb2_grpc.ReshapeServiceStub(self._channel)

    def call(self) -> Array:
        """One call."""
        return decode(self._stub.StaticReshape(encode(self._job)))

    def read(self, answer: Array) -> Array:
        """The answer is the array."""
        return answer

    def close(self) -> None:
        """Disconnects."""
        self._channel.close()


def encode(job: Job) -> reshape_pb2.StaticReshapeRequest:
    """Returns the request."""
    data = tensor_pb2.Tensor(data_type=tensor_pb2.DATA_TYPE_F32, dims=job.array.shape, data=job.array.tobytes())
    return reshape_pb2.StaticReshapeRequest(shape=job.target, special_zero=False, data=data)


def decode(response: reshape_pb2.StaticReshapeResponse) -> Array:
    """Returns the array of a response."""
    return np.frombuffer(response.output.data, np.float32).reshape(response.output.dims)


def open_session(job: Job, variant: str) -> ThreadSession:
    """Opens stubs; there is one variant."""
    del variant
    return ThreadSession(job, lambda: StubConnection(job))
