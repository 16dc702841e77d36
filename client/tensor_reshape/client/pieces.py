"""A batch as several calls under way together: the server answers one while the next is written."""

from collections import deque
from collections.abc import Callable, Iterator, Sequence

from grpc import Future

from tensor_reshape.client._calls import Call
from tensor_reshape.client.shapes import InferredShape, ShapeQuery
from tensor_reshape.rules.errors import ReshapeError

PIECE_QUERIES = 1024
"""How many independent queries make a call of their own: some tens of milliseconds of work."""

MAX_PIECES = 8
"""How many calls of a batch are under way."""

Answers = list[InferredShape | ReshapeError]


def split_queries(queries: Sequence[ShapeQuery]) -> Iterator[Sequence[ShapeQuery]]:
    """Splits a batch into pieces; one with links stays whole."""
    size = PIECE_QUERIES if all(query.data_from is None for query in queries) else max(len(queries), 1)
    return (queries[start : start + size] for start in range(0, len(queries), size))


def ask_pieces(
    queries: Sequence[ShapeQuery],
    start: Callable[[Sequence[ShapeQuery]], tuple[Call[Answers], "Future[bytes]"]],
    finish: Callable[[Call[Answers], "Future[bytes]"], Answers],
) -> Answers:
    """Returns the answers of all queries, in their order.

    Args:
        queries: the batch.
        start: sends a piece.
        finish: returns the answers of a piece that has been sent.
    """
    answers, started = Answers(), deque[tuple[Call[Answers], "Future[bytes]"]]()
    try:
        for piece in split_queries(queries):
            if len(started) == MAX_PIECES:
                answers += finish(*started.popleft())
            started.append(start(piece))
        while started:
            answers += finish(*started.popleft())
    finally:
        for _, future in started:
            future.cancel()  # those that are left, where one failed
    return answers
