"""ModelInfer and ModelStreamInfer: requests of the protocol, executed by the service.

- The output has the request's elements, copied once into the response.
- A query of `infer_shape` uses the same service call and the same lock as the native method.
- Without regions, a response depends only on its request. Only such responses are cached.
"""

import logging
import time
from collections.abc import Iterator
from functools import partial
from struct import pack

from tensor_reshape.rules.dims import ANY, AnyDim, Dim
from tensor_reshape.rules.dtypes import DataType
from tensor_reshape.rules.errors import InvalidRequestError, LimitError, Reason, ReshapeError
from tensor_reshape.rules.limits import LIGHT_HEADER_BYTES, Limits
from tensor_reshape.rules.questions import Question, ShapeAnswer, ShapeRequest
from tensor_reshape.server.config import COST_FACTOR
from tensor_reshape.server.oip.answer_caches import AnswerCache, Spans
from tensor_reshape.server.oip.models import INFER_SHAPE, find_model
from tensor_reshape.server.oip.raw_contents import Split, find_header_limit, split_message
from tensor_reshape.server.oip.requests import (
    InferCall,
    Request,
    names_a_region,
    parse_split,
    parse_whole,
    read_request,
)
from tensor_reshape.server.oip.responses import encode_error, encode_header, encode_id, wrap_response
from tensor_reshape.server.oip.shared_memory import SharedMemory
from tensor_reshape.server.oip.statistics import Statistics
from tensor_reshape.server.service.method_tables import Estimate, IsOver
from tensor_reshape.server.service.methods import LIGHT_BYTES, ReshapeService
from tensor_reshape.server.service.works import Work
from tensor_reshape.wire.reshapes import ReshapeCall, read_items
from tensor_reshape.wire.tensors import TensorView

Pieces = tuple[bytes, memoryview]
"""A response: its header, and the elements that follow it."""

_LIGHT_FIELDS = 128  # of a message that the receiving thread parses
_OUTPUT = "outputs[0].parameters"  # the parameters that say where to write the output; a model has only one
_QUERY_MODEL = INFER_SHAPE.encode()
_NOTHING = memoryview(b"")
_UNKNOWN = Dim(ANY, None)
_LOGGER = logging.getLogger(__name__)


class Inference:
    """Executes requests. Any thread may use it.

    Attributes:
        statistics: the statistics of the models.
    """

    def __init__(self, service: ReshapeService, memory: SharedMemory, limits: Limits) -> None:
        """Uses `service` to execute requests within `limits`."""
        self._service = service
        self._memory = memory
        self._limits = limits
        self._cache = AnswerCache()
        self.statistics = Statistics()

    def respond(self, raw: bytes, is_over: IsOver = lambda: False) -> bytes:
        """Returns the response to a request."""
        return b"".join(self.find_pieces(raw, is_over))

    def respond_light(self, raw: bytes) -> bytes | None:
        """Returns the response if it does not take long; otherwise None."""
        if len(raw) > LIGHT_BYTES:
            return None
        pieces = self._find_cached(raw)
        if pieces is None:
            split = _split_light(raw)
            pieces = None if split is None else self._answer_split(raw, split)
        return None if pieces is None else b"".join(pieces)

    def find_pieces(self, raw: bytes, is_over: IsOver = lambda: False) -> Pieces:
        """Returns the response to a request, in parts."""
        pieces = self._find_cached(raw)
        if pieces is not None:
            return pieces
        request = self._parse(raw)
        with self.statistics.measure(_find_model(request)) as measured:
            call = read_request(request, self._memory, self._limits)
            if call.model.has_data:
                return measured.note(self._reshape(raw, request, call))
            write = partial(self._respond_with_shape, raw, request, call)
            return measured.note(self._service.infer(partial(_read_query, call), write, is_over))

    def find_id(self, raw: bytes) -> str:
        """Returns the id of a rejected request; empty if the request cannot be read."""
        try:
            return str(self._parse(raw).message.id)
        except ReshapeError:
            return ""

    def takes_long(self, raw: bytes) -> bool:
        """Whether a request takes long, apart from moving its elements."""
        if self._cache.find(raw) is not None:
            return False
        split = _split_light(raw)
        if split is None:
            return True
        try:
            request = parse_split(raw, split)
        except ReshapeError:
            return False  # the response is this error
        return names_a_region(request.message) or request.message.model_name == INFER_SHAPE

    def _parse(self, raw: bytes) -> Request:
        split = split_message(raw, find_header_limit(self._limits))
        return parse_whole(raw, self._limits) if split is None else parse_split(raw, split)

    def _answer_split(self, raw: bytes, split: Split) -> Pieces | None:
        """Returns the response to a small request; None if it takes long."""
        spans = split.find_whole() if split.model_name == _QUERY_MODEL else split.find_spans()
        pieces = spans and self._find_cached(raw, spans)
        if pieces:
            return pieces
        request = parse_split(raw, split)
        if names_a_region(request.message):
            return None
        with self.statistics.measure(_find_model(request)) as measured:
            call = read_request(request, self._memory, self._limits)
            if call.model.has_data:
                return measured.note(self._reshape(raw, request, call))
            result = self._service.infer_light(_read_query(call))
            return None if result is None else measured.note(self._respond_with_shape(raw, request, call, result))

    def _find_cached(self, raw: bytes, spans: Spans | None = None) -> Pieces | None:
        began = time.perf_counter_ns()
        hit = self._cache.find(raw, spans)
        if hit is None:
            return None
        self._service.lookups.hits += 1
        self.statistics.note_success(hit.model, began)
        return hit.header, hit.payload

    def _reshape(self, raw: bytes, request: Request, call: InferCall) -> Pieces:
        self._service.lookups.misses += 1
        question = Question(call.operation, call.first.dims, call.target, call.special_zero, call.first.data_type)
        output = self._service.reshape(ReshapeCall(question, call.first))
        header, payload = self._finish(call, output)
        spans = request.find_spans(call.model.first.name)
        if spans is not None and payload is call.first.payload:
            self._cache.add(raw, spans, header, call.model.name)
        return encode_id(call.id) + header, payload

    def _respond_with_shape(self, raw: bytes, request: Request, call: InferCall, result: ShapeAnswer) -> Pieces:
        """Returns the response to a shape query. It has -1 for an unknown dim."""
        self._service.lookups.misses += 1
        items = [dim if isinstance(dim, int) else -1 for dim in result.dims or ()]
        output = TensorView(DataType.I64, (len(items),), None, memoryview(pack(f"<{len(items)}q", *items)))
        response = b"".join(self._finish(call, output))
        spans = request.split and request.split.find_whole()
        if spans and not names_a_region(request.message):
            self._cache.add(raw, spans, response, call.model.name)
        return encode_id(call.id) + response, _NOTHING

    def _finish(self, call: InferCall, output: TensorView) -> Pieces:
        """Returns the response without its id.

        No elements follow the header if they are in a region or sent as numbers.
        """
        if call.place is None:
            return encode_header(call, output), _NOTHING if call.is_typed else output.payload
        size = output.payload.nbytes
        if size > call.place.byte_size:
            message = f"shared memory size specified with the request for output '{call.model.output.name}' "
            message += f"({call.place.byte_size} bytes) should be at least {size} bytes to hold the results"
            raise InvalidRequestError.of(Reason.OUTPUT_INVALID, message, _OUTPUT, have=call.place.byte_size, want=size)
        # Written first, because this checks the offset, which the response contains.
        self._memory.write(call.place.region, call.place.offset, output.payload, _OUTPUT)
        return encode_header(call, output), _NOTHING


class InferSession:
    """One ModelStreamInfer call. Each message is executed on its own, in order, and an error is also a response."""

    is_between_tensors = True  # nothing of a message is kept for the next one

    def __init__(self, method: str, inference: Inference) -> None:
        """Executes messages with `inference`. `method` is the name of the method in the log if there is a bug."""
        self._method = method
        self._inference = inference

    def receive(self, raw: bytes) -> Iterator[bytes]:
        """Yields the response to a request."""
        try:
            yield wrap_response(self._inference.find_pieces(raw))
        except ReshapeError as error:
            yield encode_error(error.message, str(error.reason), self._inference.find_id(raw))
        except MemoryError:
            _LOGGER.warning("out of memory", extra={"method": self._method})
            yield encode_error("the server is out of memory", Reason.SERVER_BUSY, "")
        except Exception:
            _LOGGER.exception("bug", extra={"method": self._method})
            yield encode_error("internal error", Reason.INTERNAL_ERROR, "")

    def estimate(self, raw: bytes) -> Estimate:
        """Returns the effort for a request. If it takes long, the message does not show how much memory it needs."""
        takes_long = self._inference.takes_long(raw)
        return Estimate(takes_long, None if takes_long else COST_FACTOR * len(raw))

    def finish(self) -> None:
        """Accepts the end of the client's messages. No response is pending."""


def find_work(raw: bytes) -> Work:
    """Returns the kind of work of a request.

    Shape queries wait for each other, so they must not use the threads of tensors.

    Messages with elements as numbers, and unusual forms, are parsed as a whole. This blocks the interpreter for
    milliseconds.
    """
    split = _split_light(raw)
    if split is None:
        return Work.NUMBERS
    return Work.QUERIES if split.model_name == _QUERY_MODEL else Work.TENSORS


def _split_light(raw: bytes) -> Split | None:
    """Returns the message, split; None if it may take long to parse."""
    try:
        return split_message(raw, LIGHT_HEADER_BYTES, _LIGHT_FIELDS)
    except LimitError:  # the limit of short messages only; a thread will check the limits of the server
        return None


def _find_model(request: Request) -> str:
    """Returns the name of the model for which a request is counted.

    Raises:
        NotFoundError: MODEL_UNKNOWN.
    """
    return find_model(request.message.model_name, request.message.model_version).name


def _read_query(call: InferCall) -> ShapeRequest:
    """Returns the query of `infer_shape`. -1 is an unknown dim."""
    dims = read_items(call.operation, call.first)
    data: list[AnyDim] = [_UNKNOWN if dim == -1 else dim for dim in dims]
    return ShapeRequest(Question(call.operation, data, call.target, call.special_zero))
