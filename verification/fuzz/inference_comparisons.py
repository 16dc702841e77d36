"""Compares the parsing of inference requests with the generated class, and the responses of warm and fresh servers."""

from collections.abc import Callable, Iterator

from tensor_reshape.rules.errors import InvalidRequestError, LimitError, Reason, ReshapeError
from tensor_reshape.rules.limits import Limits
from tensor_reshape.server.oip import inferences, raw_contents, requests
from tensor_reshape.server.oip.messages import InferMessage, InferRequest, find_class
from tensor_reshape.server.oip.models import MODELS
from tensor_reshape.server.service.methods import ReshapeService
from tests.oracles.headers import measure_besides
from tests.oracles.plain_messages import Reading, describe_rejection

_REQUEST, _RESPONSE = find_class("ModelInferRequest"), find_class("ModelInferResponse")
_STREAM_RESPONSE = find_class("ModelStreamInferResponse")
_EMPTY_ID = b"\x1a\x00"  # a cache copies it as written, and a generated class omits it

Difference = tuple[str, object, object]
"""The name of the difference, the actual value, and the expected value."""


def make_inference(limits: Limits) -> inferences.Inference:
    """Returns an instance that has served no request."""
    return inferences.Inference(ReshapeService(limits), limits)


def read_plainly(raw: bytes, limits: Limits) -> Reading:
    """Returns the values that only the generated class parses from a request, or its rejection.

    A request is rejected if its fields other than the elements are too large, or if it is invalid and too large as a
    whole.
    """
    limit = raw_contents.find_header_limit(limits)
    number = _REQUEST.DESCRIPTOR.fields_by_name["raw_input_contents"].number
    size, fields, is_understood = measure_besides(raw, number)
    if size > limit or fields > raw_contents.MAX_FIELDS:
        return describe_rejection(LimitError.of(Reason.HEADER_TOO_LARGE, "", "inputs", limit=limit))
    message: InferRequest = _REQUEST()
    try:
        if not is_understood and len(raw) > limit:
            raise ValueError  # noqa: TRY301 - the parser raises the same error
        message.ParseFromString(raw)
    except Exception:  # noqa: BLE001 - the parser raises several types
        return describe_rejection(InvalidRequestError.of(Reason.MESSAGE_MALFORMED, ""))
    contents = tuple(message.raw_input_contents)
    message.ClearField("raw_input_contents")
    return _describe(message, contents)


def read_split(raw: bytes, limits: Limits) -> tuple[str, Reading]:
    """Returns whether the elements were found without parsing them, and the values that the product parses.

    Raises:
        ReshapeError: the product rejects the request.
    """
    limit = raw_contents.find_header_limit(limits)
    split = raw_contents.split_message(raw, limit)
    request = requests.parse_whole(raw, limits) if split is None else requests.parse_split(raw, split)
    contents = tuple(map(bytes, request.raw_contents))
    message = request.message
    if split is not None and split.model_name != message.model_name.encode():
        return "parsed", ("another model is seen at once", split.model_name)
    message.ClearField("raw_input_contents")
    return "parsed" if split is None else "canonical", _describe(message, contents)


def compare_answers(
    warm: inferences.Inference, raw: bytes, reading: Reading, limits: Limits
) -> Iterator[Difference | str]:
    """Calls a fresh server once, and the warm one twice and on a stream; yields differences and the outcome."""
    fresh = capture(lambda: make_inference(limits).respond(raw).removeprefix(_EMPTY_ID))
    yield str(fresh[0])
    if fresh[0] == "failed":
        yield "the response", fresh, "a response or a rejection"
    for what in ("the response of a warm service", "the second response of a warm service"):
        have = capture(lambda: (warm.respond_light(raw) or warm.respond(raw)).removeprefix(_EMPTY_ID))
        if have != fresh:
            yield what, have, fresh
    if reading[0] == "rejected" and fresh[:-1] != reading:
        yield "the response to a rejected request", fresh, reading
    if isinstance(fresh[1], bytes):
        yield from _check_answer(fresh[1], raw)
    yield from _check_stream(warm, raw, fresh)


def _check_answer(answer: bytes, raw: bytes) -> Iterator[Difference]:
    """Checks that a response has the id and the elements of its request."""
    request: InferMessage = _REQUEST.FromString(raw)
    response: InferMessage = _RESPONSE.FromString(answer)
    if response.id != request.id:
        yield "the id", response.id, request.id
    if not MODELS[request.model_name].has_data:
        return
    index = next(index for index, tensor in enumerate(request.inputs) if tensor.name == "data")
    request.DiscardUnknownFields()  # the response does not have them
    have, want = [str(tensor[0].contents) for tensor in (response.outputs, request.inputs[index:])]
    if request.raw_input_contents:
        have, want = map(str, (list(response.raw_output_contents), [request.raw_input_contents[index]]))
    if have != want:
        yield "the elements", have, want


def _check_stream(warm: inferences.Inference, raw: bytes, fresh: Reading) -> Iterator[Difference]:
    """Checks that a stream returns the same response, or rejects for the same reason."""
    (answer,) = inferences.InferSession("fuzz", warm).receive(raw)
    streamed: InferMessage = _STREAM_RESPONSE.FromString(answer)
    if fresh[0] == "rejected":
        have = streamed.infer_response.parameters["reason"].string_param
        if have != str(fresh[2]):
            yield "the rejection of a stream", have, fresh
    elif isinstance(fresh[1], bytes) and streamed.infer_response != _RESPONSE.FromString(fresh[1]):
        yield "the response of a stream", answer, fresh


def _describe(message: InferRequest, contents: tuple[bytes, ...]) -> Reading:
    message.DiscardUnknownFields()
    return "inference", message.SerializeToString(deterministic=True), contents


def capture(call: Callable[[], bytes]) -> Reading:
    """Returns the response, the rejection with all its fields, or the unexpected exception."""
    try:
        return "answered", call()
    except ReshapeError as error:
        return *describe_rejection(error), error.message
    except Exception as error:  # noqa: BLE001 - every exception is a finding
        return "failed", repr(error)
