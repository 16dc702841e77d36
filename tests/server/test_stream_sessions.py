"""One stream as a state machine: what goes in, what comes out, and every refusal."""

from collections.abc import Callable, Sequence
from math import prod
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from call_counts import count_calls
from tensor_reshape.rules import layouts
from tensor_reshape.rules.errors import InvalidRequestError, LimitError, Reason, ReshapeError
from tensor_reshape.rules.layouts import compute_span
from tensor_reshape.rules.limits import Limits
from tensor_reshape.server.service.stream_sessions import StreamSession
from tensor_reshape.v1 import reshape_pb2, tensor_pb2
from tensor_reshape.wire.streams import DEFAULT_CHUNK_BYTES, Chunk, decode_stream_response, encode_chunk
from tensor_reshape.wire.tensors import TensorView

U8, F32 = tensor_pb2.DATA_TYPE_U8, tensor_pb2.DATA_TYPE_F32
LIMITS = Limits(max_output_bytes=4096, max_tensor_bytes=2**20)
SIX = bytes(range(6))


def begin(
    dims: Sequence[int] = (6,),
    target: Sequence[int] = (-1,),
    strides: Sequence[int] = (),
    data_type: "tensor_pb2.DataType.ValueType" = U8,
    **fields: object,
) -> bytes:
    tensor = tensor_pb2.Tensor(data_type=data_type, dims=dims, strides=strides)
    shape = tensor_pb2.Tensor(
        data_type=tensor_pb2.DATA_TYPE_I64, dims=[len(target)], data=np.array(target, "<i8").tobytes()
    )
    header = reshape_pb2.ReshapeRequest(shape=shape, data=tensor, **{"special_zero": False, **fields})  # type: ignore[arg-type]
    return reshape_pb2.StreamReshapeRequest(reshape=header).SerializeToString()


def chunk(offset: int, payload: bytes) -> bytes:
    return encode_chunk(offset, memoryview(payload))


class Session:
    """A session with all that it has answered, and all that it has asked to hold."""

    def __init__(self, limits: Limits = LIMITS, hold: Callable[[int], None] | None = None) -> None:
        self.held: list[int] = []
        self.session = StreamSession(limits, hold or self.held.append)

    def send(self, *messages: bytes) -> list[bytes]:
        return [answer for message in messages for answer in self.session.receive(message)]

    def refuse(self, *messages: bytes) -> ReshapeError:
        """Sends all but the last message, then expects the last to be refused."""
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
    """Returns the bytes of chunks that follow each other."""
    joined = b""
    for message in map(decode_stream_response, answers):
        assert isinstance(message, Chunk)
        assert message.offset == len(joined)
        joined += message.payload
    return joined


def test_a_head_is_answered_at_once(session: Session):
    assert list(map(read_accept, session.send(begin((6,), (2, -1))))) == [(2, 3)]


def test_a_dense_chunk_is_passed_on_as_the_very_message(session: Session):
    session.send(begin())
    for message in (chunk(0, SIX[:2]), chunk(2, SIX[2:])):
        (answer,) = session.send(message)
        assert answer is message


def test_a_chunk_in_another_form_is_answered_in_the_plain_one(session: Session):
    session.send(begin())
    assert session.send(b"\x20\x00\x7a\x06" + SIX) == [chunk(0, SIX)]


def test_a_tensor_that_is_complete_ends_well(session: Session):
    session.send(begin(), chunk(0, SIX))
    session.session.finish()


def test_a_stream_without_any_tensor_ends_well(session: Session):
    session.session.finish()


def test_tensors_follow_each_other(session: Session):
    for dims in ((6,), (2, 3), (0,), (6, 1)):
        payload = SIX[: int(np.prod(dims))]
        accept, *chunks = session.send(begin(dims, (-1,)), *([chunk(0, payload)] if payload else []))
        assert (read_accept(accept), read_chunks(chunks)) == ((len(payload),), payload)
    session.session.finish()


def test_a_strided_tensor_may_follow_a_dense_one_and_be_followed(session: Session):
    session.send(begin(), chunk(0, SIX))
    assert read_chunks(session.send(begin((3, 2), (6,), (1, 3)), chunk(0, SIX))[1:]) == bytes([0, 3, 1, 4, 2, 5])
    assert read_chunks(session.send(begin(), chunk(0, SIX))[1:]) == SIX
    session.session.finish()


@pytest.mark.parametrize(("dims", "target"), [((0,), (2**62, 4, 0)), ((2, 0), (0,)), ((0, 2**62), (0,))])
def test_an_empty_tensor_has_no_chunks(session: Session, dims: tuple[int, ...], target: tuple[int, ...]):
    (accept,) = session.send(begin(dims, target))
    assert read_accept(accept) == target
    session.session.finish()


# dims and strides that are not nested, and no two elements of which share a place, or two of which do
ADMITTED, OVERLAPPING = ((3, 5), (5, 3)), ((3, 4), (3, 2))


@pytest.mark.parametrize("layout", [ADMITTED, OVERLAPPING], ids=["admitted", "overlapping"])
def test_places_are_not_marked_before_the_bytes_have_arrived(
    session: Session, layout: tuple[tuple[int, ...], tuple[int, ...]]
):
    with patch.object(layouts, "_mark_places", side_effect=AssertionError("the header costs more than its bytes")):
        (accept,) = session.send(begin(layout[0], (-1,), layout[1]))
    assert read_accept(accept) == (prod(layout[0]),)


def test_an_overlap_that_only_marks_show_is_refused_when_the_bytes_are_there(session: Session):
    span = compute_span(*OVERLAPPING)
    header, first = begin(OVERLAPPING[0], (-1,), OVERLAPPING[1]), chunk(0, bytes(span - 1))
    assert len(session.send(header, first)) == 1
    assert session.refuse(chunk(span - 1, b"a")).reason == Reason.STRIDES_OVERLAP


def test_a_head_with_64_odd_strides_takes_few_calls(session: Session):
    header = begin((2,) * 11 + (1,) * 53, (-1,), (*(331 + index for index in range(11)), *range(53)))
    assert count_calls(lambda: session.send(header)) < 1000


def test_an_empty_tensor_with_strides_has_no_chunks(session: Session):
    session.send(begin((0, 3), (0,), (3, 1)))
    assert session.refuse(chunk(0, b"a")).reason == Reason.CHUNK_UNEXPECTED
    session.session.finish()


def test_a_tensor_behind_an_empty_one_with_strides_is_passed_on(session: Session):
    session.send(begin((0, 3), (0,), (3, 1)), begin())
    message = chunk(0, SIX)
    assert session.send(message) == [message]


def test_a_scalar_is_one_element(session: Session):
    assert read_chunks(session.send(begin((), ()), chunk(0, b"a"))[1:]) == b"a"


@settings(deadline=None)
@given(st.lists(st.integers(1, 700), min_size=1, max_size=8), st.booleans())
def test_the_bytes_survive_in_pieces_of_any_size(sizes: list[int], strided: bool):
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


def test_a_strided_tensor_is_answered_when_all_of_it_is_here(session: Session):
    assert len(session.send(begin((3, 2), (6,), (1, 3)), chunk(0, SIX[:4]))) == 1
    assert bytes(session.session.collected or b"") == SIX[:4]
    assert read_chunks(session.send(chunk(4, SIX[4:]))) == bytes([0, 3, 1, 4, 2, 5])
    assert session.session.collected is None


def test_what_was_gathered_leaves_in_chunks_of_a_moderate_size():
    session = Session(Limits(max_output_bytes=2**23))
    size = 2 * DEFAULT_CHUNK_BYTES + 2
    answers = session.send(begin((size,), (-1,), (0,)), chunk(0, b"a"))[1:]
    assert [len(message) // DEFAULT_CHUNK_BYTES for message in answers] == [1, 1, 0]
    assert read_chunks(answers) == b"a" * size


def test_a_dense_tensor_holds_nothing(session: Session):
    session.send(begin(), chunk(0, SIX))
    assert sum(session.held) == 0


def test_a_strided_tensor_holds_what_arrives_and_what_leaves_until_the_next_one(session: Session):
    session.send(begin((3, 2), (6,), (4, 1)), chunk(0, bytes(10)))
    session.send(begin())
    assert (session.held[0] >= 10 + 2 * 6, session.held[-1]) == (True, 0)


def test_a_strided_tensor_for_which_there_is_no_memory_is_refused():
    def refuse(size: int) -> None:
        raise LimitError.of(Reason.SERVER_BUSY, "no", size=size)

    assert Session(hold=refuse).refuse(begin((3, 2), (6,), (1, 3))).reason == Reason.SERVER_BUSY


HUGE = (2**62, 2**62)
BEGUN = [begin(), chunk(0, SIX[:2])]
STRIDED = begin((3, 2), (6,), (1, 3))

# messages, reason, field
REFUSALS: dict[str, tuple[list[bytes], Reason, str]] = {
    "a chunk before any header": ([chunk(0, b"a")], Reason.CHUNK_UNEXPECTED, "chunk"),
    "a chunk after the last": ([begin(), chunk(0, SIX), chunk(6, b"a")], Reason.CHUNK_UNEXPECTED, "chunk"),
    "a chunk of an empty tensor": ([begin((0,)), chunk(0, b"a")], Reason.CHUNK_UNEXPECTED, "chunk"),
    "a chunk after the last strided": ([STRIDED, chunk(0, SIX), chunk(6, b"a")], Reason.CHUNK_UNEXPECTED, "chunk"),
    "an empty chunk": ([begin(), chunk(0, b"")], Reason.CHUNK_UNEXPECTED, "chunk"),
    "an empty chunk within": ([*BEGUN, chunk(2, b"")], Reason.CHUNK_UNEXPECTED, "chunk"),
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
    "a first chunk that is not the first": ([begin(), chunk(1, b"a")], Reason.CHUNK_OUT_OF_ORDER, "offset"),
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
    "another header before the first chunk": ([begin(), begin()], Reason.DATA_SIZE_MISMATCH, "data.data"),
    "a wrong header within a tensor": ([*BEGUN, begin((5,), (7,))], Reason.DATA_SIZE_MISMATCH, "data.data"),
    "a dense tensor above the limit": ([begin((2**20 + 1,))], Reason.TENSOR_TOO_LARGE, "data"),
    "a dense tensor of the largest volume": ([begin((2**63 - 1,), (-1,))], Reason.TENSOR_TOO_LARGE, "data"),
    "a strided tensor above the limit": ([begin((4097,), (-1,), (1,))], Reason.TENSOR_TOO_LARGE, "data"),
    "a strided tensor that spans too much": ([begin((2,), (-1,), (4096,))], Reason.TENSOR_TOO_LARGE, "data"),
    "a strided tensor that spans beyond 2^63": ([begin((2,), (-1,), (2**63 - 1,))], Reason.TENSOR_TOO_LARGE, "data"),
    "a broadcast above the limit": ([begin((4097,), (-1,), (0,))], Reason.TENSOR_TOO_LARGE, "data"),
    "strides of another rank": ([begin((6,), (-1,), (1, 1))], Reason.STRIDES_RANK_MISMATCH, "data.strides"),
    "a negative stride": ([begin((6,), (-1,), (-1,))], Reason.STRIDE_NEGATIVE, "data.strides[0]"),
    "strides of elements that share bytes": (
        [begin((2, 3), (-1,), (3, 1), tensor_pb2.DATA_TYPE_U4)],
        Reason.STRIDES_UNSUPPORTED,
        "data.strides",
    ),
    "strides that overlap": (
        [begin((2, 2), (-1,), (1, 1))],
        Reason.STRIDES_OVERLAP,
        "data.strides",
    ),
    "nothing": ([b""], Reason.FIELD_MISSING, "part"),
    "garbage within a tensor": ([*BEGUN, b"\xff"], Reason.MESSAGE_MALFORMED, ""),
    "no data": ([b"\x1a\x00"], Reason.FIELD_MISSING, "data"),
    "a volume that differs": ([begin((6,), (5,))], Reason.VOLUME_MISMATCH, "shape"),
    "a volume that is not divisible": ([begin((6,), (4, -1))], Reason.NOT_DIVISIBLE, "shape[1]"),
    "a dim beyond 2^63 - 1": ([begin(HUGE, (-1,))], Reason.DIM_OVERFLOW, "shape[0]"),
    "a negative dim": ([begin((-1,))], Reason.DIM_OUT_OF_RANGE, "data.dims[0]"),
    "an absent flag": ([begin(special_zero=None)], Reason.SPECIAL_ZERO_MISSING, "special_zero"),
}


@pytest.mark.parametrize(("messages", "reason", "field"), REFUSALS.values(), ids=REFUSALS.keys())
def test_a_message_is_refused(session: Session, messages: list[bytes], reason: Reason, field: str):
    error = session.refuse(*messages)
    assert (error.reason, error.field) == (reason, field)
    limit = reason in {Reason.TENSOR_TOO_LARGE}
    assert isinstance(error, LimitError if limit else InvalidRequestError)


@pytest.mark.parametrize("messages", [[begin()], BEGUN, [STRIDED, chunk(0, SIX[:5])]], ids=["none", "some", "strided"])
def test_the_end_within_a_tensor_is_refused(session: Session, messages: list[bytes]):
    session.send(*messages)
    with pytest.raises(InvalidRequestError) as caught:
        session.session.finish()
    assert (caught.value.reason, caught.value.metadata["want"]) == (Reason.DATA_SIZE_MISMATCH, "6")


@pytest.mark.parametrize(("strides", "limit"), [((), 2**20), ((1,), 4096)], ids=["dense", "strided"])
def test_a_tensor_of_exactly_the_limit_is_accepted(session: Session, strides: tuple[int, ...], limit: int):
    assert read_accept(session.send(begin((limit,), (-1,), strides))[0]) == (limit,)
