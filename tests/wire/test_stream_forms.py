"""Whatever the encoding of a stream's message, it is read as the generated class reads it."""

from random import Random

from google.protobuf.message import DecodeError
from hypothesis import given, settings
from hypothesis import strategies as st

from odd_encodings import build_stream_input
from plain_decoding import MALFORMED, describe_call, read_plainly, refuse
from tensor_reshape.rules.dtypes import DataType
from tensor_reshape.rules.errors import Reason, ReshapeError
from tensor_reshape.rules.operations import DYNAMIC_RESHAPE, RESHAPE, STATIC_RESHAPE
from tensor_reshape.v1 import reshape_pb2
from tensor_reshape.wire.streams import Chunk, decode_stream_request, decode_stream_response

OPERATIONS = {"static_reshape": STATIC_RESHAPE, "dynamic_reshape": DYNAMIC_RESHAPE, "reshape": RESHAPE}
seeds = st.integers(0, 2**64 - 1)


def describe_chunk(chunk: Chunk) -> tuple[object, ...]:
    return "chunk", chunk.offset, bytes(chunk.payload)


def decode_request(raw: bytes) -> tuple[object, ...]:
    try:
        message = decode_stream_request(raw)
    except ReshapeError as error:
        return refuse(error)
    if isinstance(message, Chunk):
        return describe_chunk(message)
    return "begin", message.question.operation, describe_call(message)


def decode_request_plainly(raw: bytes) -> tuple[object, ...]:
    try:
        message = reshape_pb2.StreamReshapeRequest.FromString(raw)
    except DecodeError:
        return MALFORMED
    part = message.WhichOneof("part")
    if part is None:
        return Reason.FIELD_MISSING, "part", {}
    if part == "chunk":
        return "chunk", message.offset, message.chunk
    head = getattr(message, part)
    if head.data.data:
        return Reason.CHUNK_UNEXPECTED, "data.data", {"have": str(len(head.data.data))}
    plain = read_plainly(OPERATIONS[part], head)
    refused = isinstance(plain[0], Reason)
    return plain if refused else ("begin", OPERATIONS[part], plain)


def decode_response(raw: bytes) -> tuple[object, ...]:
    try:
        message = decode_stream_response(raw)
    except ReshapeError as error:
        return refuse(error)[:2]
    if isinstance(message, Chunk):
        return describe_chunk(message)
    return "accept", message.data_type, list(message.dims)


def decode_response_plainly(raw: bytes) -> tuple[object, ...]:
    try:
        message = reshape_pb2.StreamReshapeResponse.FromString(raw)
    except DecodeError:
        return MALFORMED[:2]
    if message.WhichOneof("part") == "chunk":
        return "chunk", message.offset, message.chunk
    if int(message.output.data_type) not in set(map(int, DataType)):
        return Reason.DATA_TYPE_UNSUPPORTED, "output.data_type"
    for index, dim in enumerate(message.output.dims):
        if dim < 0:
            return Reason.DIM_OUT_OF_RANGE, f"output.dims[{index}]"
    return "accept", DataType(message.output.data_type), list(message.output.dims)


@settings(max_examples=1500, deadline=None)
@given(seeds)
def test_any_encoding_of_a_request_is_read_as_the_generated_class_reads_it(seed: int):
    raw = build_stream_input(Random(seed), answers=False)
    assert decode_request(raw) == decode_request_plainly(raw)


@settings(max_examples=1500, deadline=None)
@given(seeds)
def test_any_encoding_of_a_response_is_read_as_the_generated_class_reads_it(seed: int):
    raw = build_stream_input(Random(seed), answers=True)
    assert decode_response(raw) == decode_response_plainly(raw)


@settings(max_examples=1500, deadline=None)
@given(seeds)
def test_a_chunk_that_is_passed_on_as_it_is_means_the_same_to_the_receiver(seed: int):
    raw = build_stream_input(Random(seed), answers=False)
    try:
        message = decode_stream_request(raw)
    except ReshapeError:
        return
    if isinstance(message, Chunk) and message.message is not None:
        twin = reshape_pb2.StreamReshapeResponse.FromString(message.message)
        assert (twin.WhichOneof("part"), twin.offset, twin.chunk) == ("chunk", message.offset, bytes(message.payload))
        assert message.message is raw
