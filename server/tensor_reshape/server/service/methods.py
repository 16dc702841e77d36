"""The class `ReshapeService` executes parsed queries and calls.

It also has the methods of the API for serialized messages.

- The arguments and results of `infer`, `infer_light` and `reshape` are Python objects, not bytes. The messages of
  ReshapeService and of the package `oip` are decoded to the same classes.
- Each unary method decodes its request, applies the reshape rules, runs the backend and encodes the response. If a
  request is wrong, the method raises a `ReshapeError`. Any other exception is a bug.
- The class itself does not use threads. The code that uses the class supplies a lock (`Turns`). For each call, it also
  supplies a function `is_over`, which returns whether the call is over.
- All batches share one lock, and all single queries share another lock, so a single query never waits for a batch. The
  methods for light requests take no lock.
- A response depends only on its request and not on earlier requests. A cached response therefore stays valid.
"""

import logging
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from itertools import islice
from typing import Protocol, TypeVar

from tensor_reshape.rules.batches import answer_batch, answer_light_item
from tensor_reshape.rules.errors import LimitError, Reason
from tensor_reshape.rules.inference import answer_question, begin_answer, expects_product, infer_shape
from tensor_reshape.rules.layouts import count_bytes
from tensor_reshape.rules.limits import LIGHT_HEADER_BYTES, Limits
from tensor_reshape.rules.operations import Operation
from tensor_reshape.rules.questions import ShapeAnswer, ShapeRequest
from tensor_reshape.runtime.caches import RecentCache
from tensor_reshape.server.service.backend import has_gather, reshape
from tensor_reshape.server.service.header_cache import MAX_CACHE_BYTES, HeaderCache, Lookups
from tensor_reshape.server.service.method_tables import (
    IsOver,
    MethodTable,
    StreamMethod,
    UnaryMethod,
    Work,
    always,
    build_light_method,
)
from tensor_reshape.server.service.stream_sessions import StreamSession
from tensor_reshape.v1 import reshape_pb2
from tensor_reshape.wire import batches, inference
from tensor_reshape.wire.fields import parse_message
from tensor_reshape.wire.methods import BATCH_INFER_SHAPE, INFER_SHAPE, OPERATION_METHODS, SERVER_INFO, STREAM_RESHAPE
from tensor_reshape.wire.reshapes import (
    Parts,
    ReshapeCall,
    decode_reshape_request,
    encode_response_header,
    find_parts,
)
from tensor_reshape.wire.servers import ServerInfo, encode_server_info
from tensor_reshape.wire.tensors import TensorView

Encoded = TypeVar("Encoded")

MAX_CACHED_RESULT_BYTES = 4 * 1024
"""The maximum size of a query together with its result in the cache."""

LIGHT_BYTES = 256 * 1024
"""The largest unary message that the receiving thread, or the event loop of HTTP, processes, in bytes.

Starting a worker thread for it would take longer.
"""

_LIGHT_ODD_BYTES = 1024
"""The largest message in an unusual encoding that the receiving thread decodes, in bytes.

Decoding such a message takes longer, because the message is read field by field and more than once.
"""

_LIGHT_BATCH_BYTES = 1024
_LIGHT_BATCH_ITEMS = 16
"""The limits of a batch that the receiving thread executes. The most expensive batch takes about 2 ms."""

_RUN_ITEMS = 256
"""The number of batch items that are processed together. All of them are decoded, then solved, and then encoded."""

Backend = Callable[[TensorView, tuple[int, ...], Limits], TensorView]

_LOGGER = logging.getLogger(__name__)


class Turns(Protocol):
    """A lock that a thread holds while it computes shapes."""

    def __enter__(self) -> object:
        """Waits for the lock."""

    def __exit__(self, *_: object) -> None:
        """Releases the lock."""

    def give_way(self) -> None:
        """If this thread has held the lock for long, passes it to a waiting thread, and waits to get it back."""


class _NoTurns:
    """A lock that does nothing, for programs with one thread."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        pass

    def give_way(self) -> None:
        pass


def _log_bug(bug: Exception) -> None:
    """Logs a bug that a batch item caused. The log writes only a few records of one kind in a second."""
    _LOGGER.error("bug", exc_info=bug, extra={"method": BATCH_INFER_SHAPE.path})


class ReshapeService:
    """Executes parsed queries and calls, and the serialized requests of all methods of the API.

    Attributes:
        lookups: the numbers of hits and misses in the header caches and in the query cache.
    """

    def __init__(
        self, limits: Limits, *, backend: Backend = reshape, make_turns: Callable[[], Turns] = _NoTurns
    ) -> None:
        """Makes a service with empty caches.

        Several threads may use the service only if `make_turns` returns a real lock.

        Args:
            limits: the limits of requests and responses.
            backend: the function that moves the elements of a tensor.
            make_turns: a function that makes a lock, which threads hold while they compute shapes. The default lock
                does nothing, and is for programs with one thread.
        """
        self._limits = limits
        self._backend = backend
        self.lookups = Lookups()
        self._headers = {operation: HeaderCache() for operation in OPERATION_METHODS}
        # Queries and batches have separate locks, because a query takes at most some milliseconds, but a batch may take
        # seconds.
        self._query_turns, self._batch_turns = make_turns(), make_turns()
        # without this cache, a batch of ten queries takes 0.1 to 0.2 ms longer
        self._item_results: RecentCache[bytes, bytes] = RecentCache(MAX_CACHE_BYTES, MAX_CACHED_RESULT_BYTES)
        # Programs that process compute graphs repeat their queries. A query takes less than 1 us if its result is
        # cached. Without the cache, a query with known dims takes 27 us.
        self._results: RecentCache[bytes, bytes] = RecentCache(MAX_CACHE_BYTES, MAX_CACHED_RESULT_BYTES)

    @property
    def methods(self) -> MethodTable:
        """The methods of the API."""
        executed = [
            UnaryMethod(method.path, partial(self.execute, operation), partial(self.execute_light, operation))
            for operation, method in OPERATION_METHODS.items()
        ]
        infer = UnaryMethod(INFER_SHAPE.path, self.infer_shape, self.infer_shape_light, always(Work.QUERIES))
        batch = UnaryMethod(
            BATCH_INFER_SHAPE.path, self.infer_batch, self.infer_batch_light, find_work=always(Work.BATCHES)
        )
        return MethodTable((*executed, infer, batch), (StreamMethod(STREAM_RESHAPE.path, self.open_stream),))

    def execute(self, operation: Operation, request: bytes, is_over: IsOver = lambda: False) -> bytes:
        """Executes a StaticReshape, DynamicReshape or Reshape request.

        The execution takes so little time that `is_over` is not checked.
        """
        del is_over
        response, parts = self._find_cached(operation, request)
        if response is not None:
            return response
        call = decode_reshape_request(operation, request, self._limits, parts)
        return self._reshape(operation, request, parts, call)

    def execute_light(self, operation: Operation, request: bytes) -> bytes | None:
        """Executes a request with few bytes. Returns None for a larger request."""
        if len(request) > LIGHT_BYTES:
            return None
        response, parts = self._find_cached(operation, request)
        if response is not None:
            return response
        if parts is None and len(request) > _LIGHT_ODD_BYTES:
            return None
        call = decode_reshape_request(operation, request, self._limits, parts)
        if call.data.strides and not (has_gather() and count_bytes(call.data.data_type, call.data.dims) <= LIGHT_BYTES):
            return None
        if expects_product(call.question):
            return None
        return self._reshape(operation, request, parts, call)

    def infer_shape(self, request: bytes, is_over: IsOver = lambda: False) -> bytes:
        """Returns the response to an InferShape request.

        Raises:
            ReshapeError: the query is rejected, or the client no longer waits.
        """
        read, write = partial(inference.decode_infer_request, request), partial(self._keep_result, request)
        return self._find_result(request) or self.infer(read, write, is_over)

    def infer_shape_light(self, request: bytes) -> bytes | None:
        """Returns the response to a query that is cached, or that is short and needs no search. Otherwise returns None.

        Raises:
            ReshapeError: the query is rejected.
        """
        found = self._find_result(request)
        if found is not None or len(request) > LIGHT_HEADER_BYTES:
            return found
        result = self.infer_light(inference.decode_infer_request(request))
        return None if result is None else self._keep_result(request, result)

    def infer(
        self, read: Callable[[], ShapeRequest], write: Callable[[ShapeAnswer], Encoded], is_over: IsOver
    ) -> Encoded:
        """Executes a query, while the calling thread holds the lock for queries.

        Args:
            read: a function that returns the query.
            write: a function that encodes the result.
            is_over: a function that returns whether the client no longer waits.

        Raises:
            ReshapeError: the query is rejected, or the client no longer waits.
        """
        with self._query_turns:
            _check_awaited(is_over)
            return write(answer_question(read(), self._limits))

    def infer_light(self, request: ShapeRequest) -> ShapeAnswer | None:
        """Executes a query that needs no search. Returns None for a query that needs a search.

        Raises:
            ReshapeError: the query is rejected.
        """
        begun = begin_answer(request, self._limits)
        # If a query needs a search, `infer` later calls `begin_answer` again. The second call takes 5 us, which matters
        # little, because a search takes half a millisecond or more.
        return begun if isinstance(begun, ShapeAnswer) else None

    def infer_batch(self, request: bytes, is_over: IsOver = lambda: False) -> bytes:
        """Returns the response to BatchInferShape. Batches that run at the same time take turns, each for a time slice.

        Raises:
            InvalidRequestError: MESSAGE_MALFORMED.
            LimitError: the batch is too large, or the client no longer waits.
        """
        with self._batch_turns:
            # this check comes before decoding, so that no work is done for a client that has disconnected
            _check_awaited(is_over)
            read = batches.decode_batch_items(batches.decode_batch_request(request), _log_bug)
            items = _share(read, is_over, self._batch_turns)
            results = _share(answer_batch(items, self._limits, _log_bug), is_over, self._batch_turns)
            return batches.encode_batch_response(results, self._limits.max_output_bytes, _log_bug)

    def infer_batch_light(self, request: bytes) -> bytes | None:
        """Returns the response to a small BatchInferShape whose items need no search. Returns None for other batches.

        Raises:
            InvalidRequestError: MESSAGE_MALFORMED.
        """
        if len(request) > _LIGHT_BATCH_BYTES:
            return None
        items = batches.decode_batch_request(request)
        if len(items) > _LIGHT_BATCH_ITEMS:
            return None
        # exceptions are ignored here, because `infer_batch` repeats the work and reports them
        with suppress(Exception):
            results = list[bytes]()
            for item in items:
                result = self._find_item_result(item)
                if result is None:
                    return None
                results.append(result)
            # if the results are too large, `infer_batch` replaces the last results by errors
            if sum(map(len, results)) <= self._limits.max_output_bytes:
                return batches.join_items(results)
        return None

    def reshape(self, call: ReshapeCall) -> TensorView:
        """Reshapes a tensor.

        Raises:
            InvalidRequestError: the request breaks a reshape rule, or its bytes do not match the layout of the tensor.
            LimitError: the reason is RANK_LIMIT_EXCEEDED or OUTPUT_TOO_LARGE.
        """
        return self._backend(call.data, infer_shape(call.question, self._limits), self._limits)

    def open_stream(self, hold: Callable[[int], None]) -> StreamSession:
        """Begins a StreamReshape call (see `StreamSession`)."""
        return StreamSession(self._limits, hold)

    def _find_result(self, request: bytes) -> bytes | None:
        found = self._results[request]
        if found is not None:
            self.lookups.hits += 1
        return found

    def _keep_result(self, request: bytes, result: ShapeAnswer) -> bytes:
        self.lookups.misses += 1
        response = inference.encode_infer_response(result)
        self._results.keep(request, response, len(request) + len(response))
        return response

    def _find_item_result(self, item: bytes) -> bytes | None:
        """Returns the encoded result of a batch item, or None if computing the result may take long."""
        found = self._item_results[item]
        if found is None:
            (decoded,) = batches.decode_batch_items([item])
            result = answer_light_item(decoded, self._limits)
            if result is not None:
                found = batches.encode_batch_result(result)
                self._item_results.keep(item, found, len(item) + len(found))
        return found

    def _find_cached(self, operation: Operation, request: bytes) -> tuple[bytes | None, Parts | None]:
        """Returns the response and the parts of the request.

        The response is None if its header is not cached. The parts are None if they were not needed or not found.
        """
        headers, parts = self._headers[operation], None
        cached = headers.find(request)
        if cached is None:
            parts = find_parts(request, LIGHT_HEADER_BYTES)
            cached = headers.find_at(request, parts.payload if parts else len(request))
        if cached is None:
            return None, parts
        self.lookups.hits += 1
        # `join` copies the bytes of the tensor directly from a view of the request, so the bytes are copied only once.
        return b"".join((cached.header, memoryview(request)[cached.start :])), parts

    def _reshape(self, operation: Operation, request: bytes, parts: Parts | None, call: ReshapeCall) -> bytes:
        self.lookups.misses += 1
        output = self.reshape(call)
        header = encode_response_header(output.data_type, output.dims, output.payload.nbytes)
        # The response header can be cached if the bytes that follow it are exactly the bytes that follow the request
        # header.
        begin = parts.payload if parts else len(request)
        if output.payload is call.data.payload and len(request) - begin == output.payload.nbytes:
            self._headers[operation].add(request, begin, header)
        return b"".join((header, output.payload))


def _share(made: Iterator[Encoded], is_over: IsOver, turns: Turns) -> Iterator[Encoded]:
    """Yields the items of `made` while the client waits.

    Between items, other threads can take the lock. The items are made in groups of `_RUN_ITEMS`. If each item of a JSON
    batch were decoded, solved and encoded separately, the batch would take a sixth longer.
    """
    checked = _check_each(made, is_over, turns)
    while run := list(islice(checked, _RUN_ITEMS)):
        for item in run:
            turns.give_way()  # the code that uses the previous item may have held the lock for a long time
            yield item


def _check_each(made: Iterator[Encoded], is_over: IsOver, turns: Turns) -> Iterator[Encoded]:
    for item in made:
        turns.give_way()
        _check_awaited(is_over)
        yield item


def _check_awaited(is_over: IsOver) -> None:
    if is_over():
        message = "the call is over"
        raise LimitError(message, reason=Reason.STALLED)


def build_info_method(info: ServerInfo) -> UnaryMethod:
    """Returns the method ServerInfo, whose response is serialized only once, when the server starts."""
    response = encode_server_info(info)

    def respond(request: bytes) -> bytes:
        # A ServerInfo request has no fields. The parser rejects invalid bytes, but accepts unknown fields of newer
        # clients.
        parse_message(reshape_pb2.ServerInfoRequest, request)
        return response

    return build_light_method(SERVER_INFO.path, respond)
