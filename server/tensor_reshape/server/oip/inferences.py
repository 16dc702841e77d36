"""The methods ModelInfer and ModelStreamInfer.

The elements of the output are the last field of a response. Protobuf encodes the other fields, which form the header.
The header and the elements are then joined, so the elements are copied only once.

- The output of a reshape model has the same elements as the request.
- A query of the model `infer_shape` uses the same function and the same lock as the gRPC method InferShape.
- A response depends only on its request, so it may be cached.
"""

import json
import logging
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from struct import pack
from typing import TypeVar

from tensor_reshape.rules.dims import read_unknown
from tensor_reshape.rules.dtypes import DataType
from tensor_reshape.rules.errors import LimitError, Reason, ReshapeError
from tensor_reshape.rules.limits import DEFAULT_LIMITS, LIGHT_HEADER_BYTES, Limits
from tensor_reshape.rules.questions import Question, ShapeAnswer, ShapeRequest
from tensor_reshape.server.config import COST_FACTOR
from tensor_reshape.server.oip.datatypes import NAMES, fill_contents
from tensor_reshape.server.oip.messages import InferMessage, find_class
from tensor_reshape.server.oip.models import INFER_SHAPE, VERSION, Statistics, find_model
from tensor_reshape.server.oip.raw_contents import ResponseCache, Spans, Split, find_header_limit, split_message
from tensor_reshape.server.oip.requests import (
    InferCall,
    SplitRequest,
    parse_split,
    parse_whole,
    read_request,
)
from tensor_reshape.server.service.method_tables import Estimate, IsOver, Work
from tensor_reshape.server.service.methods import LIGHT_BYTES, ReshapeService
from tensor_reshape.wire.fields import encode_varint
from tensor_reshape.wire.reshapes import ReshapeCall
from tensor_reshape.wire.tensors import TensorView

_PARAMETER = find_class("InferParameter")
_RESPONSE, _STREAM_RESPONSE = find_class("ModelInferResponse"), find_class("ModelStreamInferResponse")
_RAW_TAG = b"\x32"  # the tag of `raw_output_contents`, which is field 6 (length-delimited)
_INFER_TAG = b"\x12"  # the tag of `infer_response`, which is field 2 of a ModelStreamInferResponse


def list_parameters(answer: ShapeAnswer | None) -> dict[str, str | bool]:
    """Returns the parameters of a response, which contain the conditions of an answer to a shape query."""
    parameters: dict[str, str | bool] = {}
    if answer is not None and answer.conditions:
        parameters["conditions"] = json.dumps([str(condition) for condition in answer.conditions])
    if answer is not None and not answer.conditions_complete:
        parameters["conditions_complete"] = False
    return parameters


def encode_header(call: InferCall, output: TensorView, answer: ShapeAnswer | None = None) -> bytes:
    """Returns the response without its id and without its elements.

    If the elements of the response are raw contents, they must follow this header. For a shape query, `answer` has the
    conditions that the response contains. For other requests, `answer` is None.
    """
    message: InferMessage = _RESPONSE(model_name=call.model.name, model_version=VERSION)
    message.outputs.add(name=call.model.output.name, datatype=NAMES[output.data_type], shape=output.dims)
    for name, value in list_parameters(answer).items():
        setattr(message.parameters[name], "bool_param" if isinstance(value, bool) else "string_param", value)
    if call.is_typed:
        fill_contents(message.outputs[0], call.source, output)
        return bytes(message.SerializeToString())
    return bytes(message.SerializeToString()) + _RAW_TAG + encode_varint(output.payload.nbytes)


def encode_id(request_id: str) -> bytes:
    """Returns the encoded field of the response that repeats the id of the request.

    Returns no bytes if this id is empty.
    """
    return _RESPONSE(id=request_id).SerializeToString()


def wrap_response(pieces: Sequence[bytes | memoryview]) -> bytes:
    """Returns a response in the form of a ModelStreamInfer message. The response is the concatenation of `pieces`."""
    length = sum(map(len, pieces))
    return b"".join((_INFER_TAG, encode_varint(length), *pieces))


def encode_error(text: str, reason: str, request_id: str) -> bytes:
    """Returns a message of ModelStreamInfer with an error, its reason, and the id of the rejected request."""
    response = {"id": request_id, "parameters": {"reason": _PARAMETER(string_param=reason)}}
    return _STREAM_RESPONSE(error_message=text, infer_response=response).SerializeToString()


Response = TypeVar("Response")

Write = Callable[[InferCall, TensorView, ShapeAnswer | None], Response]
"""Returns the response to a request, from its output and from the answer if the request is a shape query."""

Join = Callable[[tuple[bytes, memoryview]], bytes]
"""Returns the response from its header and the elements of the output. It copies the elements."""

_LIGHT_FIELDS = 128  # the maximum number of fields in a message that the receiving thread parses
_NOTHING = memoryview(b"")
_LOGGER = logging.getLogger(__name__)


class Inference:
    """Executes requests of the Open Inference Protocol. Any thread may use this object.

    Attributes:
        statistics: the statistics of the models.
    """

    def __init__(self, service: ReshapeService, limits: Limits) -> None:
        """Starts with an empty cache. `service` executes the requests within `limits`."""
        self._service = service
        self._limits = limits
        self._cache = ResponseCache()
        self.statistics = Statistics()

    def respond(self, raw: bytes, is_over: IsOver = lambda: False, join: Join = b"".join) -> bytes:
        """Returns the response to a request."""
        response = self._find_cached(raw, join)
        if response is not None:
            return response
        request = self._parse(raw)
        response = self.execute(request, partial(self._write, raw, request, join), is_over)
        assert response is not None  # noqa: S101 - for type checkers
        return response

    def respond_light(self, raw: bytes) -> bytes | None:
        """Returns the response to a request that does not take long. Returns None if the request may take long."""
        if len(raw) > LIGHT_BYTES:
            return None
        response = self._find_cached(raw)
        if response is not None:
            return response
        split = _split_light(raw)
        if split is None:
            return None
        spans = split.find_spans()
        response = spans and self._find_cached(raw, spans=spans)
        if response:
            return response
        request = parse_split(raw, split)
        return self.execute(request, partial(self._write, raw, request, b"".join))

    def execute(self, request: SplitRequest, write: Write[Response], is_over: IsOver | None = None) -> Response | None:
        """Executes a parsed request.

        Args:
            request: the request.
            write: a function that returns the response.
            is_over: a function that returns whether the client no longer waits. If `is_over` is None, a request that
                may take long is not executed, and the result is None.
        """
        model = find_model(request.message.model_name, request.message.model_version).name
        began = time.perf_counter_ns()
        try:
            call = read_request(request, self._limits)
            try:
                response = self._reshape(call, write) if call.model.has_data else self._infer(call, write, is_over)
            except ReshapeError as error:
                raise call.rename_error(error) from None
        except Exception:
            self.statistics.count(model, began, is_success=False)
            raise
        if response is not None:
            self.statistics.count(model, began)
        return response

    def find_id(self, raw: bytes) -> str:
        """Returns the id of a rejected request, or "" if the request cannot be parsed."""
        try:
            return str(self._parse(raw).message.id)
        except ReshapeError:
            return ""

    def takes_long(self, raw: bytes) -> bool:
        """Whether processing a request takes long. The time for copying its elements does not count."""
        return find_work(raw) is not Work.TENSORS and self._cache.find(raw) is None

    def _parse(self, raw: bytes) -> SplitRequest:
        split = split_message(raw, find_header_limit(self._limits))
        return parse_whole(raw, self._limits) if split is None else parse_split(raw, split)

    def _find_cached(self, raw: bytes, join: Join = b"".join, spans: Spans | None = None) -> bytes | None:
        began = time.perf_counter_ns()
        hit = self._cache.find(raw, spans)
        if hit is None:
            return None
        self._service.lookups.hits += 1
        response = join((hit.header, hit.payload))
        self.statistics.count(hit.model, began)
        return response

    def _reshape(self, call: InferCall, write: Write[Response]) -> Response:
        question = Question(call.operation, call.first.dims, call.target, call.special_zero, call.first.data_type)
        output = self._service.reshape(ReshapeCall(question, call.first))
        self._service.lookups.misses += 1
        return write(call, output, None)

    def _infer(self, call: InferCall, write: Write[Response], is_over: IsOver | None) -> Response | None:
        read, write_answer = partial(_read_query, call), partial(self._write_shape, call, write)
        if is_over is not None:
            return self._service.infer(read, write_answer, is_over)
        result = self._service.infer_light(read())
        return None if result is None else write_answer(result)

    def _write_shape(self, call: InferCall, write: Write[Response], result: ShapeAnswer) -> Response:
        """Returns the response to a shape query. In the output shape, -1 stands for an unknown dim."""
        items = [dim if isinstance(dim, int) else -1 for dim in result.dims or ()]
        output = TensorView(DataType.I64, (len(items),), None, memoryview(pack(f"<{len(items)}q", *items)))
        self._service.lookups.misses += 1
        return write(call, output, result)

    def _write(
        self,
        raw: bytes,
        request: SplitRequest,
        join: Join,
        call: InferCall,
        output: TensorView,
        answer: ShapeAnswer | None,
    ) -> bytes:
        """Returns the encoded gRPC response, and adds its header to the cache if possible."""
        header, payload = encode_header(call, output, answer), output.payload
        if answer is not None and not call.is_typed:
            header += payload
        if answer is not None or call.is_typed:
            payload = _NOTHING
        spans = _find_spans(request, call)
        if spans is not None and (payload is _NOTHING or payload is call.first.payload):
            self._cache.add(raw, spans, header, call.model.name)
        return join((encode_id(call.id) + header, payload))


class InferSession:
    """One ModelStreamInfer call. Each message is a separate request, and an error is also sent as a response."""

    is_between_tensors = True  # this value is always True, because each message contains a whole tensor

    def __init__(self, method: str, inference: Inference) -> None:
        """Makes the session of a call.

        `inference` executes the requests of the call. `method` is used only in log lines.
        """
        self._method = method
        self._inference = inference

    def receive(self, raw: bytes) -> Iterator[bytes]:
        """Yields the response to a request, which may be an error."""
        try:
            yield self._inference.respond(raw, join=wrap_response)
        except ReshapeError as error:
            yield encode_error(error.message, str(error.reason), self._inference.find_id(raw))
        except MemoryError:
            _LOGGER.warning("out of memory", extra={"method": self._method})
            yield encode_error("the server is out of memory", Reason.SERVER_BUSY, "")
        except Exception:
            _LOGGER.exception("bug", extra={"method": self._method})
            yield encode_error("internal error", Reason.INTERNAL_ERROR, "")

    def estimate(self, raw: bytes) -> Estimate:
        """Returns the estimated cost of a request. The memory is estimated only if the request does not take long."""
        takes_long = self._inference.takes_long(raw)
        return Estimate(takes_long, None if takes_long else COST_FACTOR * len(raw))

    def finish(self) -> None:
        """Does nothing, because the response to each message has already been sent."""


def find_work(raw: bytes) -> Work:
    """Returns the kind of work of a request that takes long.

    Shape queries have their own threads, because only one shape query is computed at a time. Queries that wait for
    their turn would otherwise occupy the threads for tensors.

    A message is parsed as a whole if it has an unusual encoding or contains elements as numbers. While a whole message
    is parsed, the Python interpreter is blocked for milliseconds, so only one of these messages is parsed at a time.
    """
    split = _split_light(raw)
    if split is None:
        return Work.NUMBERS
    return Work.QUERIES if split.model_name == INFER_SHAPE.encode() else Work.TENSORS


def _find_spans(request: SplitRequest, call: InferCall) -> Spans | None:
    """Returns the positions of the id and of the elements in a request, for the cache.

    Returns None if another input is longer than the elements.
    """
    split = request.split
    spans = split and split.find_spans()
    if not split or not spans or not split.raw_contents or not call.model.has_data:
        return spans
    index = [tensor.name for tensor in request.message.inputs].index(call.model.first.name)
    return spans if split.raw_contents[index][0] == spans.begin else None


def _split_light(raw: bytes) -> Split | None:
    """Returns the split message, or None if parsing the message may take long."""
    try:
        return split_message(raw, LIGHT_HEADER_BYTES, _LIGHT_FIELDS)
    # The message without its elements is too long for this thread, so a worker thread will parse the message and check
    # the server's limits.
    except LimitError:
        return None


def _read_query(call: InferCall) -> ShapeRequest:
    """Returns the shape query in a request of the model `infer_shape`. In the request, -1 stands for an unknown dim."""
    data = read_unknown(tuple(call.read_list(DEFAULT_LIMITS)))
    return ShapeRequest(Question(call.operation, data, call.target, call.special_zero))
