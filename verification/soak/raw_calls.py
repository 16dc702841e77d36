"""The calls of a soak that no SDK makes: refusals of requests that it would not send, and streams by hand."""

import threading
import time
from collections.abc import Callable, Iterator
from random import Random

import grpc
import numpy as np

from plain_requests import build_begin, build_chunk, build_request, build_static_request
from tensor_reshape.client.statuses import build_error
from tensor_reshape.rules.errors import Reason, ReshapeError
from tensor_reshape.v1 import reshape_pb2
from tensor_reshape.wire.methods import SERVICE
from verification.soak.steps import KIB, MIB, WrongAnswerError

_STREAM = f"/{SERVICE}/StreamReshape"
_TIMEOUT_SECONDS = 60.0
_ROOM_SECONDS = 1.5


SQUARE = (2, 2)  # 16 bytes
BEGIN, LARGE_BEGIN = build_begin(SQUARE), build_begin((2**22,))
UNARY: tuple[tuple[bytes, Reason], ...] = (
    (b"\xff\xff\xff", Reason.MESSAGE_MALFORMED),
    (b"", Reason.FIELD_MISSING),
    (build_request(SQUARE, bytes(15)), Reason.DATA_SIZE_MISMATCH),
    (build_request(SQUARE, bytes(MIB)), Reason.DATA_SIZE_MISMATCH),
    (b"\x2a\xf0\xa2\x04" + bytes(70000) + build_request(SQUARE, bytes(16)), Reason.HEAD_TOO_LARGE),
    (build_request(SQUARE, bytes(12), strides=(1, 1)), Reason.STRIDES_OVERLAP),
    (build_request(SQUARE, bytes(16), strides=(-2, 1)), Reason.STRIDE_NEGATIVE),
    (build_request((2**24,), bytes(4), strides=(0,)), Reason.OUTPUT_TOO_LARGE),
    (build_request(SQUARE, bytes(16), target=(3, -1)), Reason.NOT_DIVISIBLE),
)
STREAMS: tuple[tuple[tuple[bytes, ...], Reason], ...] = (
    ((b"",), Reason.FIELD_MISSING),
    ((build_chunk(0, bytes(16)),), Reason.CHUNK_UNEXPECTED),
    ((BEGIN, build_chunk(0, bytes(8)), build_chunk(4, bytes(8))), Reason.CHUNK_OUT_OF_ORDER),
    ((BEGIN, build_chunk(0, bytes(8))), Reason.DATA_SIZE_MISMATCH),
    ((BEGIN, build_chunk(0, bytes(20))), Reason.DATA_SIZE_MISMATCH),
    ((build_begin((2**24, 2), strides=(1, 2**24)),), Reason.TENSOR_TOO_LARGE),
    # What is refused is followed by more, which may arrive while the refusal leaves.
    ((LARGE_BEGIN, build_chunk(4, bytes(KIB)), *[build_chunk(0, bytes(MIB))] * 4), Reason.CHUNK_OUT_OF_ORDER),
    ((LARGE_BEGIN, BEGIN, *[build_chunk(0, bytes(MIB))] * 4), Reason.DATA_SIZE_MISMATCH),
)


class RawCalls:
    """Makes the calls on a channel."""

    def __init__(self, channel: grpc.Channel, random: Random) -> None:
        """Makes those that `random` decides."""
        self._random = random
        self._unary: grpc.StreamUnaryMultiCallable[bytes, bytes]
        self._unary = channel.stream_unary(f"/{SERVICE}/StaticReshape")
        self._stream: grpc.StreamStreamMultiCallable[bytes, bytes] = channel.stream_stream(_STREAM)

    def run(self) -> str:
        """Makes one, and returns the name of its kind."""
        share = self._random.random()
        if share < 0.5:
            return self._refuse_unary()
        if share < 0.8:
            return self._refuse_stream()
        if share < 0.95:
            return self._cancel()
        return self._collect()

    def _refuse_unary(self) -> str:
        request, reason = self._random.choice(UNARY)
        check_refused(lambda: self._unary(iter((request,)), timeout=_TIMEOUT_SECONDS), reason)
        return "refused, by hand"

    def _refuse_stream(self) -> str:
        messages, reason = self._random.choice(STREAMS)
        check_refused(lambda: list(self._stream(iter(messages), timeout=_TIMEOUT_SECONDS)), reason)
        return "refused stream, by hand"

    def _cancel(self) -> str:
        """Ends a call at any moment: before it has begun, while it is sent, answered, or received."""
        size = self._random.choice((0, KIB, 64 * KIB, MIB, 8 * MIB))
        request = build_static_request(size)
        call = self._unary.future(iter((request,)), timeout=_TIMEOUT_SECONDS)
        time.sleep(self._random.choice((0, 0, 0.0005, 0.002, 0.01)))
        call.cancel()
        return "cancelled, by hand"

    def _collect(self) -> str:
        """Streams data with strides, which the server puts in order when all of it is there."""
        rows, columns = self._random.randint(1, 512), self._random.randint(1, 512)
        numbers = np.arange(rows * columns, dtype="<f4")
        raw, size = numbers.tobytes(), self._random.choice((4 * KIB, 64 * KIB, MIB))
        messages = [build_chunk(begin, raw[begin : begin + size]) for begin in range(0, len(raw), size)]
        call = self._stream(
            iter((build_begin((rows, columns), strides=(1, rows)), *messages)), timeout=_TIMEOUT_SECONDS
        )
        if b"".join(_read_chunks(call)) != numbers.reshape(columns, rows).T.tobytes():
            message = f"a tensor of {rows} by {columns} was put in the wrong order"
            raise WrongAnswerError(message)
        return "strided stream, by hand"


def count_room(channel: grpc.Channel) -> int:
    """Returns how many streams the server has memory for at once, each with as much as one may hold."""
    return max(_count_room_once(channel) for _ in range(3))


def _count_room_once(channel: grpc.Channel) -> int:
    """Opens streams until the server refuses one, or lets it wait; all end before it would give up one for another."""
    ended, calls = threading.Event(), list[grpc.Call]()
    end = time.monotonic() + _ROOM_SECONDS
    stream: grpc.StreamStreamMultiCallable[bytes, bytes] = channel.stream_stream(_STREAM)

    def begin() -> Iterator[bytes]:
        yield build_begin((2**11, 2**11), strides=(1, 2**11))
        ended.wait()

    try:
        while True:
            call = stream(begin(), timeout=max(end - time.monotonic(), 0.001))
            next(call)
            calls.append(call)
    except grpc.RpcError as error:
        if error.code() is not grpc.StatusCode.DEADLINE_EXCEEDED:
            _check_reason(error, Reason.SERVER_BUSY)
    finally:
        ended.set()
        for one in calls:
            one.cancel()
    return len(calls)


def _read_chunks(call: Iterator[bytes]) -> Iterator[bytes]:
    for raw in call:
        message = reshape_pb2.StreamReshapeResponse.FromString(raw)
        if message.WhichOneof("part") == "chunk":
            yield message.chunk


def check_refused(call: Callable[[], object], reason: Reason) -> None:
    """Makes a call; raises WrongAnswerError where it is answered, or refused for another reason."""
    try:
        call()
    except grpc.RpcError as error:
        _check_reason(error, reason)
        return
    message = f"{reason}: the call was answered"
    raise WrongAnswerError(message)


def _check_reason(error: grpc.RpcError, reason: Reason) -> None:
    metadata = error.trailing_metadata() or ()
    refusal = build_error(error.code(), error.details(), metadata)  # type: ignore[arg-type] # pairs, too
    if not isinstance(refusal, ReshapeError) or refusal.reason != reason:
        message = f"{refusal!r}; wanted {reason}"
        raise WrongAnswerError(message) from error
