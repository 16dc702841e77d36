"""The table of calls that clients make: the calls of each row, and their expected results.

The expected results follow from the rules and from numpy, not from a server. The rows of the native RPCs are the calls
of a client that has the protobuf definition. `TABLES` has the rows of every protocol.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from math import prod
from random import Random

from grpc import StatusCode

from tensor_reshape.rules.batches import BatchItem
from tensor_reshape.rules.dtypes import DataType
from tensor_reshape.rules.operations import DYNAMIC_RESHAPE, OPERATIONS, RESHAPE, STATIC_RESHAPE
from tensor_reshape.rules.questions import Question, ShapeRequest
from tensor_reshape.wire.methods import SERVICE
from verification.foreign_calls import (
    BFLOAT16S,
    FOLLOWING,
    Failure,
    ForeignCall,
    list_empty_reshapes,
    list_questions,
    make_batch,
    make_inference,
    make_request,
    make_reshape,
    make_stream,
    make_tensor,
)
from verification.inference_rows import INFERENCE_ROWS

MIB = 2**20
NATIVE, INFERENCE, CONNECT = "native", "inference", "connect"
_DEADLINE_SECONDS = 0.5
_SEED = 12

Rows = Mapping[str, Callable[[], list[ForeignCall]]]


def list_reshapes_of_every_type(dims: tuple[int, ...], target: tuple[int, ...]) -> list[ForeignCall]:
    random, volume = Random(_SEED), prod(dims)
    calls = []
    for operation in OPERATIONS.values():
        for data_type in sorted(operation.data_types):
            payload = random.randbytes(data_type.count_bytes(volume))
            calls.append(make_reshape(operation, target, make_tensor(data_type, dims, payload), payload))
    return calls


def list_bfloat16_reshapes() -> list[ForeignCall]:
    data = make_tensor(DataType.BF16, BFLOAT16S.shape, BFLOAT16S.tobytes())
    return [make_reshape(operation, [3, -1], data, BFLOAT16S.tobytes()) for operation in OPERATIONS.values()]


def make_u8_reshape(size: int) -> ForeignCall:
    payload = Random(_SEED).randbytes(size)
    return make_reshape(RESHAPE, [-1], make_tensor(DataType.U8, [2, size // 2], payload), payload)


def list_inferences(*, known: bool) -> list[ForeignCall]:
    """Returns the queries about known shapes, or those about unknown ones, with every option."""
    return [
        make_inference(request)
        for request in list_questions()
        if request.explain
        and known == all(_is_known(shape) for shape in (request.question.data, request.question.target))
    ]


def _is_known(shape: object) -> bool:
    return isinstance(shape, list | tuple) and all(type(dim) is int for dim in shape)


def list_batches() -> list[ForeignCall]:
    """Returns one batch. Its second query is rejected, and the third query refers to the first."""
    questions = [
        Question(operation=STATIC_RESHAPE, data=[2, 3, 4], target=target, special_zero=True)
        for target in ([0, -1], [5, -1])
    ]
    return [make_batch([*[BatchItem(ShapeRequest(question)) for question in questions], BatchItem(FOLLOWING, 0)])]


def list_rejections() -> list[ForeignCall]:
    data = make_tensor(DataType.F32, [2, 3], bytes(24))
    return [
        make_reshape(operation, target, data, b"")
        for operation in OPERATIONS.values()
        for target in ([4, -1], [7], [-1, -1], [-2])
    ]


def list_deadlines() -> list[ForeignCall]:
    """Returns a stream that is accepted, and then lasts longer than its deadline."""
    call = make_stream(Random(_SEED), STATIC_RESHAPE, [4], 16)
    late = replace(call, requests=call.requests[:1], responses=(), holds=True, seconds=_DEADLINE_SECONDS)
    return [replace(late, failure=Failure(StatusCode.DEADLINE_EXCEEDED))]


def list_messages_above_the_limit() -> list[ForeignCall]:
    """Returns messages that the server's transport rejects before parsing, so the error has no details."""
    data = make_tensor(DataType.U8, [17 * MIB], bytes(17 * MIB))
    request = make_request(RESHAPE, [-1], data)
    return [ForeignCall(SERVICE, "Reshape", [request], failure=Failure(StatusCode.RESOURCE_EXHAUSTED))]


def list_rejected_inferences() -> list[ForeignCall]:
    questions = [
        Question(operation=operation, data=[2, None, 3], target=target, special_zero=True)
        for operation in OPERATIONS.values()
        for target in ([4, -2], [-1, -1], [0, 0, 0, 0])
    ]
    return [make_inference(ShapeRequest(question)) for question in questions]


def list_inferences_above_the_limit() -> list[ForeignCall]:
    """Returns a query that is larger than the HTTP port accepts."""
    question = Question(operation=RESHAPE, data=[6], target=[1] * 100_000, special_zero=True)
    call = make_inference(ShapeRequest(question))
    return [replace(call, responses=(), failure=Failure(StatusCode.RESOURCE_EXHAUSTED, "MESSAGE_TOO_LARGE"))]


NATIVE_ROWS: Rows = {
    "a reshape of every type": partial(list_reshapes_of_every_type, (2, 3, 4), (0, -1)),
    "a scalar of every type": partial(list_reshapes_of_every_type, (), (1, 1)),
    "without elements": lambda: list(list_empty_reshapes()),
    "bf16, bit for bit": list_bfloat16_reshapes,
    "a message of 8 MiB": lambda: [make_u8_reshape(8 * MIB)],
    "64 MiB by stream": lambda: [make_stream(Random(_SEED), DYNAMIC_RESHAPE, [4, 4 * MIB], MIB)],
    "inference, all known": partial(list_inferences, known=True),
    "inference, partly known": partial(list_inferences, known=False),
    "a batch with a bad item": list_batches,
    "a rejection, its reason decoded": list_rejections,
    "a deadline": list_deadlines,
    "a message above the limit": list_messages_above_the_limit,
}

CONNECT_ROWS: Rows = {
    "inference, all known": partial(list_inferences, known=True),
    "inference, partly known": partial(list_inferences, known=False),
    "a batch with a bad item": list_batches,
    "a rejection, its reason decoded": list_rejected_inferences,
    "a message above the limit": list_inferences_above_the_limit,
}

TABLES: Mapping[str, Rows] = {NATIVE: NATIVE_ROWS, INFERENCE: INFERENCE_ROWS, CONNECT: CONNECT_ROWS}
"""The rows of each protocol. The `about.json` of a program names its protocols."""
