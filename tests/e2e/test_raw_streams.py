"""Valid and invalid streams, as a program in another language sends them."""

import grpc
import numpy as np
import pytest

from plain_requests import INFER, INFERRED, SIX, STRIDED, begin, chunk, describe, open_stream, send_raw
from tensor_reshape.client import InvalidRequestError, Reason
from tensor_reshape.v1 import reshape_pb2, reshape_pb2_grpc, tensor_pb2

STATIC = reshape_pb2.StaticReshapeRequest(
    shape=reshape_pb2.TargetShape(items=[2, -1]),
    special_zero=False,
    data=tensor_pb2.Tensor(data_type=tensor_pb2.DATA_TYPE_F32, dims=[6]),
)


def test_generated_stub_can_stream_a_tensor_in_chunks(channel: grpc.Channel):
    payload = np.arange(6, dtype="<f4").tobytes()
    requests = [
        reshape_pb2.StreamReshapeRequest(static_reshape=STATIC),
        reshape_pb2.StreamReshapeRequest(chunk=payload[:10], offset=0),
        reshape_pb2.StreamReshapeRequest(chunk=payload[10:], offset=10),
    ]
    answers = list(reshape_pb2_grpc.ReshapeServiceStub(channel).StreamReshape(iter(requests)))
    assert answers[0].output == tensor_pb2.Tensor(data_type=tensor_pb2.DATA_TYPE_F32, dims=[2, 3])
    assert [(answer.offset, answer.chunk) for answer in answers[1:]] == [(0, payload[:10]), (10, payload[10:])]


def test_stream_reshape_responds_to_each_message(channel: grpc.Channel):
    with open_stream(channel, begin((6,), (2, 3))) as stream:
        assert stream.accept() == (2, 3)
        for offset in range(6):
            stream.send(chunk(offset, SIX[offset : offset + 1]))
            assert next(stream.call) == chunk(offset, SIX[offset : offset + 1])
        stream.finish()


def test_one_stream_can_reshape_several_tensors(channel: grpc.Channel):
    with open_stream(channel) as stream:
        for dims, target in (((6,), (2, 3)), ((0, 4), (4, 0)), ((2, 3), (6,)), ((), ())):
            payload = SIX[: int(np.prod(dims))]
            stream.send(STRIDED, chunk(0, SIX[:4]), chunk(4, SIX[4:]))
            assert (stream.accept(), stream.receive(6)) == ((6,), bytes([0, 3, 1, 4, 2, 5]))
            stream.send(begin(dims, target), *([chunk(0, payload)] if payload else []))
            assert (stream.accept(), stream.receive(len(payload))) == (target, payload)
        stream.finish()


def test_stream_without_messages_succeeds(channel: grpc.Channel):
    with open_stream(channel) as stream:
        stream.finish()


# messages, whether the client then half-closes, reason, field
BAD: dict[str, tuple[list[bytes], bool, Reason, str]] = {
    "a rejected header": ([begin((6,), (4, -1))], False, Reason.NOT_DIVISIBLE, "shape[1]"),
    "half sent": ([begin(), chunk(0, SIX[:3])], True, Reason.DATA_SIZE_MISMATCH, "data.data"),
    "garbage within": ([begin(), chunk(0, SIX[:3]), b"\xff"], False, Reason.MESSAGE_MALFORMED, ""),
    "a rejected second tensor": ([begin(), chunk(0, SIX), begin((6,), (7,))], False, Reason.VOLUME_MISMATCH, "shape"),
}


@pytest.mark.parametrize(("messages", "closes", "reason", "field"), BAD.values(), ids=BAD.keys())
def test_rejected_stream_does_not_affect_the_next_call(
    channel: grpc.Channel, messages: list[bytes], closes: bool, reason: Reason, field: str
):
    with open_stream(channel, *messages) as stream:
        if closes:
            stream.close()
        assert describe(stream.reject())[:3] == (InvalidRequestError, reason, field)
    assert send_raw(channel, "InferShape", INFER) == INFERRED
    with open_stream(channel, begin(), chunk(0, SIX)) as stream:
        assert (stream.accept(), stream.receive(6)) == ((6,), SIX)


def test_stream_returns_chunks_received_before_an_error(channel: grpc.Channel):
    with open_stream(channel, begin(), chunk(0, SIX[:3]), chunk(9, b"a")) as stream:
        assert (stream.accept(), stream.receive(3)) == ((6,), SIX[:3])
        assert describe(stream.reject())[1] == Reason.CHUNK_OUT_OF_ORDER
