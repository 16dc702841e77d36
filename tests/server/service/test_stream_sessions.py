"""One stream as a state machine: its messages, its responses, and every rejection."""

from collections.abc import Callable
from math import prod
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hypothesis_profiles import examples
from meters import count_calls
from plain_requests import SIX, STRIDED, begin, chunk
from tensor_reshape.rules import layouts
from tensor_reshape.rules.dtypes import DataType
from tensor_reshape.rules.errors import InvalidRequestError, LimitError, Reason, ReshapeError
from tensor_reshape.rules.layouts import compute_span
from tensor_reshape.rules.limits import Limits
from tensor_reshape.rules.notation import parse_dim
from tensor_reshape.server.config import COST_FACTOR
from tensor_reshape.server.service import stream_sessions
from tensor_reshape.server.service.stream_sessions import StreamSession
from tensor_reshape.v1 import reshape_pb2, tensor_pb2
from tensor_reshape.wire.dims import encode_shape
from tensor_reshape.wire.fields import encode_varint
from tensor_reshape.wire.reshapes import (
    DEFAULT_CHUNK_BYTES,
    Chunk,
    ReshapeCall,
    decode_stream_request,
    decode_stream_response,
)
from tensor_reshape.wire.tensors import TensorView
from tests.oracles.plain_messages import describe_rejection
from tests.oracles.plain_streams import Begin, Cut, Part, PlainStream

U8 = tensor_pb2.DATA_TYPE_U8
LIMITS = Limits(max_output_bytes=4096, max_tensor_bytes=2**20)
GATHERED = bytes([0, 3, 1, 4, 2, 5])


class Session:
    """A session, and the sizes that it has requested to hold."""

    def __init__(self, limits: Limits = LIMITS, hold: Callable[[int], None] | None = None) -> None:
        self.held: list[int] = []
        self.session = StreamSession(limits, hold or self.held.append)

    def send(self, *messages: bytes) -> list[bytes]:
        return [answer for message in messages for answer in self.session.receive(message)]

    def reject(self, *messages: bytes) -> ReshapeError:
        """Sends messages, the last of which must be rejected."""
        self.send(*messages[:-1])
        with pytest.raises(ReshapeError) as caught:
            self.send(messages[-1])
        return caught.value


@pytest.fixture
def session() -> Session:
    return Session()


def read_accept(raw: bytes) -> tuple[int, ...]:
    output = decode_stream_response(raw)
    assert isinstance(output, TensorView)
    return tuple(output.dims)


def read_chunks(answers: list[bytes]) -> bytes:
    """Returns the contents of consecutive chunks."""
    joined = b""
    for message in map(decode_stream_response, answers):
        assert isinstance(message, Chunk)
        assert message.offset == len(joined)
        joined += message.payload
    return joined


def test_stream_forwards_dense_chunks_unchanged(session: Session):
    assert list(map(read_accept, session.send(begin((6,), (2, -1))))) == [(2, 3)]
    for message in (chunk(0, SIX[:2]), chunk(2, SIX[2:])):
        (answer,) = session.send(message)
        assert answer is message
    assert sum(session.held) == 0


def test_stream_reencodes_chunks_with_an_unusual_encoding(session: Session):
    session.send(begin())
    assert session.send(b"\x20\x00\x7a\x06" + SIX) == [chunk(0, SIX)]


def test_stream_session_accepts_several_tensors(session: Session):
    for dims in ((6,), (2, 3), (0,), (6, 1)):
        payload = SIX[: int(np.prod(dims))]
        accept, *chunks = session.send(begin(dims, (-1,)), *([chunk(0, payload)] if payload else []))
        assert (read_accept(accept), read_chunks(chunks)) == ((len(payload),), payload)
    assert read_chunks(session.send(STRIDED, chunk(0, SIX))[1:]) == GATHERED
    assert read_chunks(session.send(begin(), chunk(0, SIX))[1:]) == SIX
    assert read_chunks(session.send(begin((), ()), chunk(0, b"a"))[1:]) == b"a"  # a scalar
    session.session.finish()


def test_stream_of_an_empty_tensor_has_no_chunks(session: Session):
    for dims, target in (((0,), (2**62, 4, 0)), ((2, 0), (0,)), ((0, 2**62), (0,))):
        (accept,) = session.send(begin(dims, target))
        assert read_accept(accept) == target
    session.session.finish()


# Dims and strides that are not nested: elements with gaps, and two elements at the same position.
ADMITTED, OVERLAPPING = ((3, 5), (5, 3)), ((3, 4), (3, 2))


def test_stream_checks_strides_overlap_after_all_bytes_arrived(session: Session):
    forbidden = AssertionError("the header costs more than its bytes")
    for dims, strides in (ADMITTED, OVERLAPPING):
        with patch.object(layouts, "_mark_places", side_effect=forbidden):
            (accept,) = Session().send(begin(dims, (-1,), strides))
        assert read_accept(accept) == (prod(dims),)
    span = compute_span(*OVERLAPPING)
    header, first = begin(OVERLAPPING[0], (-1,), OVERLAPPING[1]), chunk(0, bytes(span - 1))
    assert len(session.send(header, first)) == 1
    assert session.reject(chunk(span - 1, b"a")).reason == Reason.STRIDES_OVERLAP


def test_stream_header_with_64_strides_is_checked_quickly(session: Session):
    header = begin((2,) * 11 + (1,) * 53, (-1,), (*(331 + index for index in range(11)), *range(53)))
    assert count_calls(lambda: session.send(header)) < 1000


def test_stream_of_an_empty_strided_tensor_has_no_chunks(session: Session):
    session.send(begin((0, 3), (0,), (3, 1)))
    assert session.reject(chunk(0, b"a")).reason == Reason.CHUNK_UNEXPECTED
    session.session.finish()
    message = chunk(0, SIX)
    assert Session().send(begin((0, 3), (0,), (3, 1)), begin(), message)[2:] == [message]


@given(st.lists(st.integers(1, 700), min_size=1, max_size=8), st.booleans())
def test_stream_payload_survives_in_chunks_of_any_size(sizes: list[int], strided: bool):
    session, size = Session(Limits(max_output_bytes=2 * 8 * 700)), sum(sizes)
    payload = np.arange(size, dtype=np.uint8).tobytes()
    cuts = np.cumsum([0, *sizes])
    messages = [chunk(int(at), payload[at : at + length]) for at, length in zip(cuts, sizes, strict=False)]
    strides = (1, 0) if strided else ()
    dims = (size, 2) if strided else (size,)
    answers = session.send(begin(dims, (-1,), strides), *messages)
    want = np.frombuffer(payload, np.uint8).repeat(2).tobytes() if strided else payload
    assert (read_accept(answers[0]), read_chunks(answers[1:])) == ((len(want),), want)
    session.session.finish()


def test_stream_collects_a_strided_tensor_until_it_is_complete(session: Session):
    assert len(session.send(STRIDED, chunk(0, SIX[:4]))) == 1
    assert bytes(session.session.collected or b"") == SIX[:4]
    assert read_chunks(session.send(chunk(4, SIX[4:]))) == GATHERED
    assert session.session.collected is None


def test_stream_returns_a_strided_tensor_in_default_size_chunks():
    session = Session(Limits(max_output_bytes=2**23))
    size = 2 * DEFAULT_CHUNK_BYTES + 2
    answers = session.send(begin((size,), (-1,), (0,)), chunk(0, b"a"))[1:]
    assert [len(message) // DEFAULT_CHUNK_BYTES for message in answers] == [1, 1, 0]
    assert read_chunks(answers) == b"a" * size


def test_stream_holds_memory_of_a_strided_tensor_until_the_next(session: Session):
    session.send(begin((3, 2), (6,), (4, 1)), chunk(0, bytes(10)))
    session.send(begin())
    assert (session.held[0] >= 10 + 2 * 6, session.held[-1]) == (True, 0)


def test_stream_rejects_a_strided_tensor_if_no_memory_is_free():
    def reject(size: int) -> None:
        raise LimitError.of(Reason.SERVER_BUSY, "no", size=size)

    assert Session(hold=reject).reject(STRIDED).reason == Reason.SERVER_BUSY


BEGUN = [begin(), chunk(0, SIX[:2])]

# messages, reason, field
REJECTIONS: dict[str, tuple[list[bytes], Reason, str]] = {
    "a chunk before any header": ([chunk(0, b"a")], Reason.CHUNK_UNEXPECTED, "chunk"),
    "a chunk after the last": ([begin(), chunk(0, SIX), chunk(6, b"a")], Reason.CHUNK_UNEXPECTED, "chunk"),
    "a chunk after the last strided": ([STRIDED, chunk(0, SIX), chunk(6, b"a")], Reason.CHUNK_UNEXPECTED, "chunk"),
    "an empty chunk": ([begin(), chunk(0, b"")], Reason.CHUNK_UNEXPECTED, "chunk"),
    "bytes in the header": (
        [
            reshape_pb2.StreamReshapeRequest(
                reshape=reshape_pb2.ReshapeRequest(special_zero=True, data=tensor_pb2.Tensor(data_type=U8, data=b"a"))
            ).SerializeToString()
        ],
        Reason.CHUNK_UNEXPECTED,
        "data.data",
    ),
    "a gap": ([*BEGUN, chunk(3, b"a")], Reason.CHUNK_OUT_OF_ORDER, "offset"),
    "a repetition": ([*BEGUN, chunk(0, b"a")], Reason.CHUNK_OUT_OF_ORDER, "offset"),
    "a negative offset": (
        [*BEGUN, reshape_pb2.StreamReshapeRequest(chunk=b"a", offset=-1).SerializeToString()],
        Reason.CHUNK_OUT_OF_ORDER,
        "offset",
    ),
    "an offset of 2^63 - 1": ([*BEGUN, chunk(2**63 - 1, b"a")], Reason.CHUNK_OUT_OF_ORDER, "offset"),
    "a strided gap": ([STRIDED, chunk(1, b"a")], Reason.CHUNK_OUT_OF_ORDER, "offset"),
    "a chunk that is too long": ([*BEGUN, chunk(2, bytes(5))], Reason.DATA_SIZE_MISMATCH, "data.data"),
    "a strided chunk that is too long": ([STRIDED, chunk(0, bytes(7))], Reason.DATA_SIZE_MISMATCH, "data.data"),
    "another header within a tensor": ([*BEGUN, begin()], Reason.DATA_SIZE_MISMATCH, "data.data"),
    "a wrong header within a tensor": ([*BEGUN, begin((5,), (7,))], Reason.DATA_SIZE_MISMATCH, "data.data"),
    "a dense tensor above the limit": ([begin((2**20 + 1,))], Reason.TENSOR_TOO_LARGE, "data"),
    "a dense tensor of the largest volume": ([begin((2**63 - 1,), (-1,))], Reason.TENSOR_TOO_LARGE, "data"),
    "a strided tensor above the limit": ([begin((4097,), (-1,), (1,))], Reason.TENSOR_TOO_LARGE, "data"),
    "a strided tensor that spans too much": ([begin((2,), (-1,), (4096,))], Reason.TENSOR_TOO_LARGE, "data"),
    "a strided tensor that spans beyond 2^63": ([begin((2,), (-1,), (2**63 - 1,))], Reason.TENSOR_TOO_LARGE, "data"),
    "a broadcast above the limit": ([begin((4097,), (-1,), (0,))], Reason.TENSOR_TOO_LARGE, "data"),
    "strides of elements that share bytes": (
        [begin((2, 3), (-1,), (3, 1), tensor_pb2.DATA_TYPE_U4)],
        Reason.STRIDES_UNSUPPORTED,
        "data.strides",
    ),
    "nothing": ([b""], Reason.FIELD_MISSING, "part"),
    "garbage within a tensor": ([*BEGUN, b"\xff"], Reason.MESSAGE_MALFORMED, ""),
}


@pytest.mark.parametrize(("messages", "reason", "field"), REJECTIONS.values(), ids=REJECTIONS)
def test_stream_session_rejects_invalid_messages(session: Session, messages: list[bytes], reason: Reason, field: str):
    error = session.reject(*messages)
    assert (error.reason, error.field) == (reason, field)
    assert isinstance(error, LimitError if reason is Reason.TENSOR_TOO_LARGE else InvalidRequestError)


def test_stream_that_ends_within_a_tensor_is_rejected():
    for messages in ([begin()], BEGUN, [STRIDED, chunk(0, SIX[:5])]):
        session = Session()
        session.send(*messages)
        with pytest.raises(InvalidRequestError) as caught:
            session.session.finish()
        assert (caught.value.reason, caught.value.metadata["want"]) == (Reason.DATA_SIZE_MISMATCH, "6")


def test_stream_accepts_a_tensor_of_exactly_the_size_limit():
    for strides, limit in (((), 2**20), ((1,), 4096)):
        assert read_accept(Session().send(begin((limit,), (-1,), strides))[0]) == (limit,)


def pad(raw: bytes, size: int) -> bytes:
    """Adds a field that the server does not know to a message."""
    return raw + b"\x9a\x06" + encode_varint(size - len(raw) - 4) + bytes(size - len(raw) - 4)


@pytest.mark.parametrize(
    ("raw", "takes_long"),
    [
        (pad(begin(), 4096), False),
        (pad(begin(), 4097), True),
        (pad(chunk(0, b"a"), 4096), False),
        (pad(chunk(0, b"a"), 4097), True),
        (chunk(0, bytes(4097)), False),
        (chunk(0, bytes(2**20)), False),
        (b"\xff" * 4096, False),
        (b"\xff" * 4097, True),
    ],
    ids=lambda value: str(len(value)) if isinstance(value, bytes) else str(value),
)
def test_only_a_large_header_or_an_unusual_chunk_takes_long(raw: bytes, takes_long: bool):
    assert StreamSession(LIMITS, lambda _: None).estimate(raw) == (takes_long, COST_FACTOR * len(raw))


def test_estimated_message_is_decoded_once(session: Session, monkeypatch: pytest.MonkeyPatch):
    decoded: list[bytes] = []

    def decode(raw: bytes, limits: Limits) -> ReshapeCall | Chunk:
        decoded.append(raw)
        return decode_stream_request(raw, limits)

    monkeypatch.setattr(stream_sessions, "decode_stream_request", decode)
    for raw in (begin(), chunk(0, SIX)):
        session.session.estimate(raw)
        session.send(raw)
    assert decoded == [begin(), chunk(0, SIX)]
    assert session.reject(chunk(6, b"a")).reason is Reason.CHUNK_UNEXPECTED
    assert len(decoded) == 3


def test_rejection_of_a_chunk_says_whether_the_chunk_is_empty():
    assert "is empty" in Session().reject(chunk(0, b"")).message
    assert "no tensor has begun" in Session().reject(chunk(0, b"a")).message


def test_header_with_a_product_in_the_expected_shape_takes_long():
    message = reshape_pb2.StreamReshapeRequest.FromString(begin())
    for expected, takes_long in (("2*N", True), ("N", False)):
        message.reshape.expected_shape.CopyFrom(encode_shape([parse_dim(expected)]))
        raw = message.SerializeToString()
        session = StreamSession(LIMITS, lambda _: None)
        assert session.estimate(raw).takes_long is takes_long
        assert read_accept(*session.receive(raw)) == (6,)


def test_header_that_is_rejected_takes_no_thread(session: Session):
    raw = begin((6,), (4,))
    assert not session.session.estimate(raw + bytes(3)).takes_long
    assert not session.session.estimate(raw).takes_long
    assert session.reject(raw).reason is Reason.VOLUME_MISMATCH


MODEL_LIMITS = Limits(max_output_bytes=24, max_tensor_bytes=40)
DENSE = st.lists(st.sampled_from([1, 2, 3, 4, 20, 21, 0]), max_size=2).map(lambda dims: Begin(tuple(dims)))
AXES = st.lists(st.tuples(st.sampled_from([1, 2, 3, 4, 12, 13, 0]), st.integers(0, 4)), min_size=1, max_size=3)
STRIDED_ONES = AXES.map(lambda axes: Begin(tuple(dim for dim, _ in axes), tuple(stride for _, stride in axes)))
CUTS = st.builds(Cut, st.sampled_from([0, 0, 1, 2, -1]), st.sampled_from([0] * 8 + [1, -1]), st.booleans())


def read_answer(raw: bytes) -> Begin | Part:
    answer = decode_stream_response(raw)
    if isinstance(answer, Chunk):
        return Part(answer.offset, bytes(answer.payload))
    assert (answer.data_type, answer.strides) == (DataType.I16, None)
    return Begin(tuple(answer.dims))


def read_outcome(receive: Callable[[], object]) -> object:
    try:
        return receive()
    except ReshapeError as error:
        return describe_rejection(error)


class BothSessions:
    """A session and the oracle, which receive the same messages and must agree in everything."""

    def __init__(self) -> None:
        self.session, self.plain = Session(MODEL_LIMITS), PlainStream(MODEL_LIMITS)

    def send(self, message: Begin | Part, *, is_estimated: bool) -> bool:
        """Returns whether the message was accepted."""
        raw = message.encode()
        estimated = raw if is_estimated else chunk(0, b"another message")
        cost = 0 if self.plain.is_collecting else COST_FACTOR * len(estimated)
        assert self.session.session.estimate(estimated) == (self.plain.is_collecting, cost)
        received = read_outcome(lambda: [read_answer(answer) for answer in self.session.send(raw)])
        # A cheap check may find an overlap before the bytes of the tensor arrive.
        overlap = message.reject_overlap() if isinstance(message, Begin) and message.overlaps else None
        if overlap and received == describe_rejection(overlap):
            return False
        assert received == read_outcome(lambda: self.plain.receive(message))
        assert self.session.held == self.plain.held
        assert self.session.session.is_between_tensors == self.plain.is_complete
        return isinstance(received, list)


@examples(600)
@given(
    st.lists(
        st.tuples(DENSE | STRIDED_ONES | STRIDED_ONES, st.lists(CUTS, max_size=3), st.booleans()),
        min_size=1,
        max_size=4,
    )
)
def test_stream_session_agrees_with_an_oracle(tensors: list[tuple[Begin, list[Cut], bool]]):
    both = BothSessions()
    for tensor, cuts, is_estimated in tensors:
        steps: list[Begin | Cut] = [tensor, *cuts]
        for step in steps:
            message = step if isinstance(step, Begin) else both.plain.make_part(step)
            if not both.send(message, is_estimated=is_estimated):
                both = BothSessions()
                break
    assert read_outcome(both.session.session.finish) == read_outcome(both.plain.finish)
