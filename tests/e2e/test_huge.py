"""A tensor that is too large for a protobuf message is sent in chunks. Each side holds only a few of them."""

from collections.abc import Iterator

import grpc
import pytest

from server_processes import ServerProcess
from tensor_reshape.rules.dtypes import DataType
from tensor_reshape.rules.operations import RESHAPE
from tensor_reshape.rules.questions import Question
from tensor_reshape.wire.methods import STREAM_RESHAPE
from tensor_reshape.wire.reshapes import (
    Chunk,
    ReshapeCall,
    decode_stream_response,
    encode_begin,
    encode_chunk,
    read_target,
)
from tensor_reshape.wire.tensors import TensorView

CHUNK = 4 * 1024 * 1024
SIZE = 2**32 + CHUNK + 6
ZEROS = bytes(CHUNK - 8)
ROOM = [("grpc.max_receive_message_length", -1)]


def build_payload(offset: int) -> bytes:
    """Returns the bytes of a chunk: its offset and zeros."""
    return (offset.to_bytes(8, "little") + ZEROS)[: SIZE - offset]


def build_messages() -> Iterator[bytes]:
    target = TensorView(DataType.I64, [2], None, memoryview(b"\x02" + bytes(7) + b"\xff" * 8))
    question = Question(operation=RESHAPE, data=(SIZE,), target=read_target(RESHAPE, target), special_zero=False)
    yield encode_begin(ReshapeCall(question, TensorView(DataType.U8, (SIZE,), None, memoryview(b""))), target)
    for offset in range(0, SIZE, CHUNK):
        yield encode_chunk(offset, memoryview(build_payload(offset)))


@pytest.mark.measured
def test_stream_above_4_gib_keeps_its_elements(server: ServerProcess):
    with grpc.insecure_channel(server.address, ROOM) as channel:
        method: grpc.StreamStreamMultiCallable[bytes, bytes] = channel.stream_stream(STREAM_RESHAPE.path)
        answers = method(build_messages(), timeout=100)
        output = decode_stream_response(next(answers))
        chunks = map(decode_stream_response, answers)

        assert isinstance(output, TensorView)
        assert output.dims == (2, SIZE // 2)
        for offset in range(0, SIZE, CHUNK):
            chunk = next(chunks)
            assert isinstance(chunk, Chunk)
            # Compared as bytes, because comparing views takes most of the time of this test.
            assert (chunk.offset, bytes(chunk.payload)) == (offset, build_payload(offset))
        assert next(chunks, None) is None
