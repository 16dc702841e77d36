"""`tensor_reshape.v1.ReshapeService`: typed queries and calls, and the methods over serialized messages.

- `infer`, `infer_light`, `infer_items` and `reshape` are typed. Three codecs use them: the protobuf messages here,
  those of `oip`, and JSON in `http`.
- Each unary method decodes, applies the rules, runs the backend and encodes. Errors of requests are raised as
  `ReshapeError`, bugs as any other exception.
- The code that calls the service supplies what depends on threads: `Turns` is a lock, and `is_over` says whether to
  stop.
- Batches share one lock and single queries another, so that a query never waits for a batch.
- With every codec, a query is read, solved and written under the lock, so only one thread computes.
- A response depends only on its request and not on earlier ones. The cache contains earlier responses.
- A new operation is a row in `wire.methods`; this module names none.
"""

import logging
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import islice
from typing import Protocol, Self, TypeVar

from tensor_reshape.rules.batches import BatchItem, ReportBug, answer_batch
from tensor_reshape.rules.errors import LimitError, Reason, ReshapeError
from tensor_reshape.rules.inference import answer_question, begin_answer, infer_shape
from tensor_reshape.rules.layouts import count_bytes
from tensor_reshape.rules.limits import Limits
from tensor_reshape.rules.operations import Operation
from tensor_reshape.rules.questions import ShapeAnswer, ShapeRequest
from tensor_reshape.server.service.backend import has_gather, reshape
from tensor_reshape.server.service.encoded_queries import EncodedQueries
from tensor_reshape.server.service.header_cache import HeaderCache, Lookups
from tensor_reshape.server.service.method_tables import IsOver, Method, MethodTable, StreamMethod
from tensor_reshape.server.service.stream_sessions import StreamSession
from tensor_reshape.server.service.works import Work, always
from tensor_reshape.wire import batches, inference, reshapes
from tensor_reshape.wire.methods import BATCH_INFER_SHAPE, INFER_SHAPE, OPERATION_METHODS, STREAM_RESHAPE
from tensor_reshape.wire.tensors import TensorView

Result = TypeVar("Result")

LIGHT_BYTES = 256 * 1024
"""A call that moves at most this many bytes ends before a thread would have started on it."""

_LIGHT_ODD_BYTES = 1024
"""A message in an unusual form is read field by field, more than once. A longer one is read on a thread."""

_RUN_ITEMS = 256
"""The number of batch items that are read, then solved, then written, in one run."""

Backend = Callable[[TensorView, tuple[int, ...], Limits], TensorView]

_LOGGER = logging.getLogger(__name__)


class Turns(Protocol):
    """A lock for solving shapes: one thread at a time holds it, if there are several."""

    def __enter__(self) -> object:
        """Waits for the lock."""

    def __exit__(self, *_: object) -> None:
        """Releases the lock."""

    def give_way(self) -> None:
        """Lets other threads take the lock, if this one has held it for long."""


class _NoTurns:
    """The lock of a program with one thread."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def give_way(self) -> None:
        pass


class BugLog:
    """Logs only the first bug of a batch, because the bugs of the other items are likely the same."""

    def __init__(self, method: str) -> None:
        """Logs nothing yet."""
        self._method = method
        self._has_logged = False

    def report(self, bug: Exception) -> None:
        """Logs a bug if it is the first."""
        if not self._has_logged:
            self._has_logged = True
            _LOGGER.error("bug", exc_info=bug, extra={"method": self._method})


class ReshapeService:
    """Serves typed queries, and the methods of the API over serialized messages.

    Attributes:
        lookups: counts of cache lookups, of headers and of queries.
        queries: InferShape over serialized messages.
    """

    def __init__(
        self, limits: Limits, *, backend: Backend = reshape, make_turns: Callable[[], Turns] = _NoTurns
    ) -> None:
        """Serves within `limits`; safe to use from any thread.

        Args:
            limits: the limits of requests and responses.
            backend: moves the elements.
            make_turns: makes a lock for the threads that execute one method. Without it there is one thread.
        """
        self._limits = limits
        self._backend = backend
        self.lookups = Lookups()
        self._headers = {operation: HeaderCache() for operation in OPERATION_METHODS}
        # Two locks, because a query takes at most some milliseconds and a batch up to seconds.
        self._query_turns, self._batch_turns = make_turns(), make_turns()
        self.queries = EncodedQueries(self, inference.decode_infer_request, inference.encode_infer_response)

    @property
    def methods(self) -> MethodTable:
        """The methods of the API."""
        executed = [
            Method(method.path, partial(self.execute, operation), partial(self.execute_light, operation))
            for operation, method in OPERATION_METHODS.items()
        ]
        infer = Method(INFER_SHAPE.path, self.queries.respond, self.queries.respond_light, always(Work.QUERIES))
        batch = Method(BATCH_INFER_SHAPE.path, self.infer_batch, find_work=always(Work.BATCHES))
        return MethodTable((*executed, infer, batch), (StreamMethod(STREAM_RESHAPE.path, self.open_stream),))

    def execute(self, operation: Operation, request: bytes, is_over: IsOver = lambda: False) -> bytes:
        """Executes one operation: StaticReshape, DynamicReshape, Reshape. It is too short to check `is_over`."""
        del is_over
        response, start = self._look_up(operation, request)
        if response is not None:
            return response
        return self._reshape(
            operation, request, start, reshapes.decode_reshape_request(operation, request, self._limits)
        )

    def execute_light(self, operation: Operation, request: bytes) -> bytes | None:
        """Executes an operation that moves few bytes; returns None for others."""
        if len(request) > LIGHT_BYTES:
            return None
        response, start = self._look_up(operation, request)
        if response is not None:
            return response
        if start is None and len(request) > _LIGHT_ODD_BYTES:
            return None
        call = reshapes.decode_reshape_request(operation, request, self._limits)
        if call.data.strides and not (has_gather() and count_bytes(call.data.data_type, call.data.dims) <= LIGHT_BYTES):
            return None
        return self._reshape(operation, request, start, call)

    def infer(
        self, read: Callable[[], ShapeRequest], write: Callable[[ShapeAnswer], Result], is_over: IsOver
    ) -> Result:
        """Executes a query. One thread at a time does this.

        Args:
            read: returns the query.
            write: encodes the result.
            is_over: whether the client no longer waits.

        Raises:
            ReshapeError: the query is rejected, or the client no longer waits.
        """
        with self._query_turns:
            _check_awaited(is_over)
            return write(answer_question(read(), self._limits))

    def infer_light(self, request: ShapeRequest) -> ShapeAnswer | None:
        """Executes a query that needs no search; returns None for others.

        Raises:
            ReshapeError: the query is rejected.
        """
        begun = begin_answer(request, self._limits)
        # A search takes half a millisecond or more. `infer` repeats what was done here, which takes 5 us.
        return begun if isinstance(begun, ShapeAnswer) else None

    def infer_items(
        self,
        read: Callable[[ReportBug], Iterator[BatchItem | ReshapeError]],
        write: Callable[[Iterable[ShapeAnswer | ReshapeError], int, ReportBug], Result],
        is_over: IsOver,
    ) -> Result:
        """Executes a batch item by item. After each time slice, other batches continue.

        Args:
            read: yields the items. Its argument reports a bug.
            write: encodes the results in a limited number of bytes. Its last argument reports a bug.
            is_over: whether the client no longer waits.

        Raises:
            ReshapeError: the batch is rejected as a whole, or the client no longer waits.
        """
        report = BugLog(BATCH_INFER_SHAPE.path).report
        with self._batch_turns:
            _check_awaited(is_over)  # before the batch is split, so that a batch without a client costs nothing
            items = _share(read(report), is_over, self._batch_turns)
            results = _share(answer_batch(items, self._limits, report), is_over, self._batch_turns)
            return write(results, self._limits.max_output_bytes, report)

    def infer_batch(self, request: bytes, is_over: IsOver = lambda: False) -> bytes:
        """Returns the response to BatchInferShape.

        Raises:
            LimitError: the client no longer waits.
        """
        return self.infer_items(
            lambda report: batches.decode_batch_items(batches.decode_batch_request(request), report),
            batches.encode_batch_response,
            is_over,
        )

    def reshape(self, call: reshapes.ReshapeCall) -> TensorView:
        """Reshapes a tensor.

        Raises:
            InvalidRequestError: a rule is broken, or the layout and the bytes do not match.
            LimitError: RANK_LIMIT_EXCEEDED or OUTPUT_TOO_LARGE.
        """
        return self._backend(call.data, infer_shape(call.question, self._limits), self._limits)

    def open_stream(self, hold: Callable[[int], None]) -> StreamSession:
        """Begins a StreamReshape call; see `StreamSession`."""
        return StreamSession(self._limits, hold)

    def _look_up(self, operation: Operation, request: bytes) -> tuple[bytes | None, int | None]:
        """Returns the response if its header is cached, and the offset of the tensor's bytes if it was determined."""
        headers, start = self._headers[operation], None
        cached = headers.find(request)
        if cached is None:
            start = reshapes.find_tensor_bytes(request)
            cached = headers.find_at(request, start or len(request))
        if cached is None:
            return None, start
        self.lookups.hits += 1
        # One join, of a view: the bytes of the tensor are copied once.
        return b"".join((cached.header, memoryview(request)[cached.start :])), start

    def _reshape(self, operation: Operation, request: bytes, start: int | None, call: reshapes.ReshapeCall) -> bytes:
        self.lookups.misses += 1
        output = self.reshape(call)
        header = reshapes.encode_response_header(output.data_type, output.dims, output.payload.nbytes)
        # The response can be cached if it is a header followed by the bytes that end the request.
        begin = start or len(request)
        if output.payload is call.data.payload and len(request) - begin == output.payload.nbytes:
            self._headers[operation].add(request, begin, header)
        return b"".join((header, output.payload))


def _share(made: Iterator[Result], is_over: IsOver, turns: Turns) -> Iterator[Result]:
    """Yields the items while the client waits, and lets other threads take the lock in between.

    Items are made in runs, because reading, solving and writing JSON item by item takes a sixth longer.
    """
    watched = _watch(made, is_over, turns)
    while run := list(islice(watched, _RUN_ITEMS)):
        for item in run:
            turns.give_way()  # the code that uses the item may have taken long as well
            yield item


def _watch(made: Iterator[Result], is_over: IsOver, turns: Turns) -> Iterator[Result]:
    for item in made:
        turns.give_way()
        _check_awaited(is_over)
        yield item


def _check_awaited(is_over: IsOver) -> None:
    if is_over():
        message = "the call is over"
        raise LimitError(message, reason=Reason.STALLED)
