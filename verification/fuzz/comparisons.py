"""Compares the parser with the generated classes, and the responses of a warm server with those of a fresh one."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from random import Random

from tensor_reshape.rules.errors import ReshapeError
from tensor_reshape.rules.limits import Limits
from tensor_reshape.rules.operations import OPERATIONS, Operation
from tensor_reshape.server.service.methods import ReshapeService
from tensor_reshape.v1 import reshape_pb2
from tensor_reshape.wire import batches, reshapes
from tensor_reshape.wire.tensors import TensorView
from tests.oracles.plain_messages import Reading, describe_items, describe_rejection, read_plainly
from tests.oracles.varints import find_unreadable
from verification.fuzz import inference_comparisons
from verification.fuzz.inference_comparisons import capture
from verification.fuzz.inputs import BATCH_KINDS, INFERENCE, Input, generate
from verification.tasks import Tally

LIMITS = Limits(max_output_bytes=2**22)
"""The maximum size of a broadcast. A broadcast of this size already takes long."""


@dataclass(frozen=True)
class Mismatch:
    """An input for which two ways of parsing it give different results."""

    number: int
    input: Input
    what: str
    have: object
    want: object


class Comparison:
    """A batch of inputs, and the service that has served all of them."""

    def __init__(self) -> None:
        """Starts with a service without history."""
        self.tally = Tally()
        self._warm = ReshapeService(LIMITS)
        self._warm_inference = inference_comparisons.make_inference(LIMITS)

    def run(self, seed: str, count: int) -> Iterator[Mismatch]:
        """Compares this number of inputs, which follow from `seed`, and yields the mismatches."""
        for number, one in enumerate(islice(generate(Random(seed)), count)):
            self.tally.done += 1
            yield from (Mismatch(number, one, *difference) for difference in self._compare(one))

    def _compare(self, one: Input) -> Iterator[tuple[str, object, object]]:
        is_inference = one.kind == INFERENCE
        want = (
            inference_comparisons.read_plainly(one.raw, LIMITS)
            if is_inference
            else read_plainly(one.kind, one.raw, LIMITS)
        )
        form, have = _read(one.kind, one.raw)
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

    def _compare_answers(
        self, operation: Operation, raw: bytes, reading: Reading
    ) -> Iterator[tuple[str, object, object]]:
        """Calls a fresh service once and the warm one twice. The second call is answered from its cache."""
        # The fresh service has an empty cache, so an error of a cache shows as a difference.
        fresh = capture(lambda: ReshapeService(LIMITS).execute(operation, raw))
        first = capture(lambda: self._warm.execute_light(operation, raw) or self._warm.execute(operation, raw))
        second = capture(lambda: self._warm.execute(operation, raw))
        known = self._warm._headers[operation].find(raw) is not None
        self.tally.outcomes[f"a server: {'answered from the cache' if known else fresh[0]}"] += 1
        if first != fresh:
            yield "the response of a warm service", first, fresh
        if second != fresh:
            yield "the second response of a warm service", second, fresh
        if reading[0] == "rejected":
            if fresh[:-1] != reading:
                yield "the response to a rejected request", fresh, reading
        elif isinstance(fresh[1], bytes):
            yield from _check_answer(fresh[1], reading)

    def _compare_inferences(self, raw: bytes, reading: Reading) -> Iterator[inference_comparisons.Difference]:
        for seen in inference_comparisons.compare_answers(self._warm_inference, raw, reading, LIMITS):
            if isinstance(seen, str):
                self.tally.outcomes[f"a server, inference: {seen}"] += 1
            else:
                yield seen


def _check_answer(answer: bytes, reading: Reading) -> Iterator[tuple[str, object, object]]:
    """Checks the numbers, the type and the bytes of a response, except the bytes of a tensor with strides."""
    unreadable = find_unreadable(reshape_pb2.StaticReshapeResponse, answer)
    if unreadable:
        yield "the numbers of the response", unreadable, []
    output = reshape_pb2.StaticReshapeResponse.FromString(answer).output
    data_type, _, strides, payload = reading[5:]
    if output.data_type != data_type or (strides is None and output.data != payload):
        yield "the answer", (output.data_type, output.data), (data_type, payload)


def _read(kind: str, raw: bytes) -> tuple[str, Reading]:
    """Returns whether the fast path parsed the bytes, and the parsed values."""
    try:
        if kind == INFERENCE:
            return inference_comparisons.read_split(raw, LIMITS)
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
    form = "canonical" if reshapes.find_tensor_bytes(raw) is not None else "parsed"
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
