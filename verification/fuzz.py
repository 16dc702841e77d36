"""Compares the message parser with the generated classes, on as many inputs as there is time for.

The product and the generated class parse every input. Both must return the same, or reject the input for the same
reason. A new server, and a server that has served all other requests of the batch, both answer every request. Both must
send the same bytes, which every parser in use accepts with the same numbers. All inputs follow from the seed.
"""

import argparse
import sys
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from random import Random
from typing import NamedTuple

import google.protobuf
from google.protobuf.internal import api_implementation

from tensor_reshape.rules.errors import InvalidRequestError, LimitError, Reason, ReshapeError
from tensor_reshape.rules.limits import LIGHT_HEADER_BYTES, Limits
from tensor_reshape.rules.operations import OPERATIONS, Operation
from tensor_reshape.server.oip import inferences, raw_contents, requests
from tensor_reshape.server.oip.messages import InferMessage, InferRequest, find_class
from tensor_reshape.server.oip.models import MODELS
from tensor_reshape.server.service.methods import ReshapeService
from tensor_reshape.v1 import reshape_pb2
from tensor_reshape.wire import batches, reshapes
from tensor_reshape.wire.tensors import TensorView
from tests.oracles.headers import measure_besides
from tests.oracles.plain_messages import Reading, describe_items, describe_rejection, read_plainly
from tests.oracles.varints import find_unreadable
from verification.fuzz_inputs import BATCH_KINDS, INFERENCE, Input, generate
from verification.tasks import Tally, Task, add_options, run_batches

_REQUEST, _RESPONSE = find_class("ModelInferRequest"), find_class("ModelInferResponse")
_STREAM_RESPONSE = find_class("ModelStreamInferResponse")
_EMPTY_ID = b"\x1a\x00"  # a cache copies it as written, and a generated class omits it

Difference = tuple[str, object, object]
"""The name of the difference, the actual value, and the expected value."""


def make_inference(limits: Limits) -> inferences.Inference:
    return inferences.Inference(ReshapeService(limits), limits)


def _read_inference_plainly(raw: bytes, limits: Limits) -> Reading:
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
    """Returns whether the elements were found without parsing them, and the values that the product parses."""
    limit = raw_contents.find_header_limit(limits)
    split = raw_contents.split_message(raw, limit)
    request = requests.parse_whole(raw, limits) if split is None else requests.parse_split(raw, split)
    contents = tuple(map(bytes, request.raw_contents))
    message = request.message
    if split is not None and split.model_name != message.model_name.encode():
        return "parsed", ("another model is seen at once", split.model_name)
    message.ClearField("raw_input_contents")
    return "parsed" if split is None else "canonical", _describe(message, contents)


def _compare_services(fresh: Reading, warm: Iterable[Reading], reading: Reading) -> Iterator[Difference]:
    """Compares the first response of a fresh service with two of a warm one, and with a reading that is a rejection."""
    for what, have in zip(
        ("the response of a warm service", "the second response of a warm service"), warm, strict=True
    ):
        if have != fresh:
            yield what, have, fresh
    if reading[0] == "rejected" and fresh[:-1] != reading:
        yield "the response to a rejected request", fresh, reading


def _check_inference(answer: bytes, raw: bytes) -> Iterator[Difference]:
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


LIMITS = Limits(max_output_bytes=2**22)
"""The maximum size of a broadcast. A broadcast of this size already takes long."""


class Mismatch(NamedTuple):
    """An input for which two ways of parsing it give different results."""

    number: int
    input: Input
    what: str
    have: object
    want: object


class Comparison:
    """A batch of inputs, and the service that has served all of them."""

    def __init__(self) -> None:
        self.tally = Tally()
        self._warm = ReshapeService(LIMITS)
        self._warm_inference = make_inference(LIMITS)

    def run(self, seed: str, count: int) -> Iterator[Mismatch]:
        """Compares this number of inputs, which follow from `seed`, and yields the mismatches."""
        for number, one in enumerate(islice(generate(Random(seed)), count)):
            self.tally.done += 1
            yield from (Mismatch(number, one, *difference) for difference in self._compare(one))

    def _compare(self, one: Input) -> Iterator[Difference]:
        is_inference = one.kind == INFERENCE
        want = _read_inference_plainly(one.raw, LIMITS) if is_inference else read_plainly(one.kind, one.raw, LIMITS)
        form, have = read_message(one.kind, one.raw)
        self._count(one.kind, form, want)
        if have != want:
            yield "the reading", have, want
        if one.kind in OPERATIONS:
            yield from self._compare_answers(OPERATIONS[one.kind], one.raw, want)
        if is_inference:
            yield from self._compare_inferences(one.raw, want)

    def _count(self, kind: str, form: str, want: Reading) -> None:
        self.tally.outcomes[f"{kind}: {'rejected' if want[0] == 'rejected' else form}"] += 1
        if want[0] == "rejected":
            self.tally.outcomes[f"rejected: {want[2]}"] += 1

    def _compare_answers(self, operation: Operation, raw: bytes, reading: Reading) -> Iterator[Difference]:
        """Calls a fresh service once and the warm one twice. The second call is answered from its cache."""
        # The fresh service has an empty cache, so an error of a cache shows as a difference.
        fresh = capture(lambda: ReshapeService(LIMITS).execute(operation, raw))
        first = capture(lambda: self._warm.execute_light(operation, raw) or self._warm.execute(operation, raw))
        second = capture(lambda: self._warm.execute(operation, raw))
        known = self._warm._headers[operation].find(raw) is not None
        self.tally.outcomes[f"a server: {'answered from the cache' if known else fresh[0]}"] += 1
        yield from _compare_services(fresh, (first, second), reading)
        if reading[0] != "rejected" and isinstance(fresh[1], bytes):
            yield from _check_answer(fresh[1], reading)

    def _compare_inferences(self, raw: bytes, reading: Reading) -> Iterator[Difference]:
        """Calls a fresh service once, and the warm one twice and on a stream."""
        warm = self._warm_inference
        fresh = capture(lambda: make_inference(LIMITS).respond(raw).removeprefix(_EMPTY_ID))
        self.tally.outcomes[f"a server, inference: {fresh[0]}"] += 1
        if fresh[0] == "failed":
            yield "the response", fresh, "a response or a rejection"
        answers = [
            capture(lambda: (warm.respond_light(raw) or warm.respond(raw)).removeprefix(_EMPTY_ID)) for _ in range(2)
        ]
        yield from _compare_services(fresh, answers, reading)
        if isinstance(fresh[1], bytes):
            yield from _check_inference(fresh[1], raw)
        yield from _check_stream(warm, raw, fresh)


def _check_answer(answer: bytes, reading: Reading) -> Iterator[Difference]:
    """Checks the numbers, the type and the bytes of a response, except the bytes of a tensor with strides."""
    unreadable = find_unreadable(reshape_pb2.StaticReshapeResponse, answer)
    if unreadable:
        yield "the numbers of the response", unreadable, []
    output = reshape_pb2.StaticReshapeResponse.FromString(answer).output
    data_type, _, strides, payload = reading[5:]
    if output.data_type != data_type or (strides is None and output.data != payload):
        yield "the answer", (output.data_type, output.data), (data_type, payload)


def read_message(kind: str, raw: bytes) -> tuple[str, Reading]:
    """Returns whether the fast path parsed the bytes, and the values that the product parses."""
    try:
        if kind == INFERENCE:
            return read_split(raw, LIMITS)
        if kind in BATCH_KINDS:
            return "parsed", ("batch", *describe_items(_read_batch(kind, raw)))
        return _read_tensor(kind, raw)
    except ReshapeError as error:
        return "rejected", describe_rejection(error)
    except Exception as error:  # noqa: BLE001 - every exception is a finding
        return "failed", ("failed", repr(error))


def _read_tensor(kind: str, raw: bytes) -> tuple[str, Reading]:
    if kind == "to_server":
        return _describe_part(reshapes.decode_stream_request(raw, LIMITS))
    if kind == "to_client":
        return _describe_part(reshapes.decode_stream_response(raw))
    form = "canonical" if reshapes.find_parts(raw, LIGHT_HEADER_BYTES) else "parsed"
    if kind == "response":
        return form, _describe_output(reshapes.decode_reshape_response(raw))
    return form, _describe_call("request", reshapes.decode_reshape_request(OPERATIONS[kind], raw, LIMITS))


def _read_batch(kind: str, raw: bytes) -> Iterable[object]:
    if kind == "questions":
        return batches.decode_batch_items(batches.decode_batch_request(raw))
    return batches.decode_batch_response(raw)


def _describe_part(part: reshapes.ReshapeCall | TensorView | reshapes.Chunk) -> tuple[str, Reading]:
    if isinstance(part, reshapes.ReshapeCall):
        return "parsed", _describe_call("request", part)
    if isinstance(part, TensorView):
        return "parsed", _describe_output(part)
    if part.message is None:
        return "parsed", ("chunk", part.offset, bytes(part.payload))
    # A chunk that is passed on unchanged must be the same chunk for its receiver.
    passed_on = reshape_pb2.StreamReshapeResponse.FromString(part.message)
    same = (passed_on.offset, passed_on.chunk) == (part.offset, bytes(part.payload))
    return "canonical", ("chunk" if same else "another chunk is passed on", part.offset, bytes(part.payload))


def _describe_call(what: str, call: reshapes.ReshapeCall) -> Reading:
    question, data = call.question, call.data
    if (question.data, question.data_type) != (data.dims, data.data_type):
        what = "a question about other data"
    expected = None if question.expected is None else list(question.expected)
    target, name = list(question.target), question.operation.name
    return (what, name, question.special_zero, target, expected, *_describe_tensor(data))


def _describe_output(output: TensorView) -> Reading:
    return ("output", *_describe_tensor(output))


def _describe_tensor(tensor: TensorView) -> Reading:
    strides = None if tensor.strides is None else tuple(tensor.strides)
    return tensor.data_type, tuple(tensor.dims), strides, bytes(tensor.payload)


BATCH = 2000
_MAX_MISMATCHES = 10
_MAX_DUMP_BYTES = 4096


def run_batch(task: Task) -> Tally:
    seed, batch, count = task
    comparison = Comparison()
    for mismatch in comparison.run(seed, count):
        comparison.tally.findings.append(describe(batch, mismatch))
        if len(comparison.tally.findings) >= _MAX_MISMATCHES:
            break
    return comparison.tally


def describe(batch: int, mismatch: Mismatch) -> str:
    """Returns the text of a mismatch with its bytes, and how to reproduce it."""
    raw = mismatch.input.raw
    lines = [
        f"MISMATCH in {mismatch.what} of {mismatch.input.kind}: batch {batch}, input {mismatch.number}",
        f"  have {mismatch.have!r:.2000}",
        f"  want {mismatch.want!r:.2000}",
        f"  {len(raw)} bytes" + (f", of which the first {_MAX_DUMP_BYTES}:" if len(raw) > _MAX_DUMP_BYTES else ":"),
        *(f"  {at:06x}  {raw[at : at + 32].hex(' ', 4)}" for at in range(0, min(len(raw), _MAX_DUMP_BYTES), 32)),
    ]
    return "\n".join(lines)


def main() -> int:
    """Runs the comparison. The status is 1 if there is a mismatch."""
    parser = argparse.ArgumentParser("scripts/verify fuzz", description=__doc__)
    parser.add_argument("inputs", nargs="?", type=int, default=1_000_000, help="how many")
    add_options(parser)
    arguments = parser.parse_args()
    print(f"protobuf {google.protobuf.__version__} ({api_implementation.Type()})", flush=True)
    return run_batches(run_batch, arguments.inputs, BATCH, arguments)


if __name__ == "__main__":
    sys.exit(main())
