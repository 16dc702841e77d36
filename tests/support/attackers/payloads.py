"""What attackers send: requests that are legal and dear, and headers without a library that remembers them."""

from collections.abc import Iterator, Sequence
from functools import cache
from itertools import islice

from http2 import SERVICE_PATH, grpc_message, list_call_headers
from inference_requests import build_question, build_typed_request
from plain_requests import build_begin, build_chunk, build_request, build_static_request
from tensor_reshape.rules.limits import MAX_BATCH_BYTES
from tensor_reshape.server.oip.messages import find_path
from tensor_reshape.v1 import reshape_pb2, tensor_pb2

STATIC, RESHAPE, INFER, BATCH, STREAM = (
    SERVICE_PATH + name for name in ("StaticReshape", "Reshape", "InferShape", "BatchInferShape", "StreamReshape")
)
MODEL_INFER, MODEL_STREAM_INFER, SERVER_READY = map(find_path, ("ModelInfer", "ModelStreamInfer", "ServerReady"))
METHODS = (STATIC, SERVICE_PATH + "DynamicReshape", RESHAPE, INFER, BATCH, STREAM)
MIB = 1 << 20

_XX_1, _XX_2, _XX_5 = 11400714785074694791, 14029467366897019727, 2870177450012600261  # of a tuple's hash
_WORD = 1 << 64


SMALL = build_static_request()


def broadcast(size: int) -> bytes:
    """Returns a request of some bytes whose answer has so many: all elements are one, at a stride of 0."""
    return build_request((size // 4,), bytes(4), strides=[0])


def begin_stream(size: int) -> bytes:
    """Returns the message that begins a dense tensor of so many bytes on a stream."""
    return grpc_message(build_begin((size // 4,)))


def chunk(offset: int, data: bytes) -> bytes:
    """Returns a message with a part of a tensor."""
    return grpc_message(build_chunk(offset, data))


@cache
def build_odd_strides() -> bytes:
    """Returns a stream's header of 120 bytes whose 23 strides take long to understand."""
    shape = tensor_pb2.Tensor(data_type=tensor_pb2.DATA_TYPE_I64, dims=[1], data=b"\xff" * 8)
    strides = [729421 + place for place in range(23)]
    data = tensor_pb2.Tensor(data_type=tensor_pb2.DATA_TYPE_U8, dims=[2] * 23, strides=strides)
    header = reshape_pb2.ReshapeRequest(shape=shape, special_zero=False, data=data)
    return grpc_message(reshape_pb2.StreamReshapeRequest(reshape=header).SerializeToString())


@cache
def build_linked_batch(size: int) -> bytes:
    """Returns a batch of so many bytes: 39 for each item, which asks about the eight unknowns of the first."""
    first = _ask([_lie_within(2, 9 + place) for place in range(8)], [tensor_pb2.Dim(value=0)] * 8)
    target = [_lie_within(1, 50), _lie_within(1, 60), tensor_pb2.Dim(value=-1)]
    linked = _ask(None, target)
    linked.data_from = 0
    return _fill(first, linked, size)


@cache
def build_wide_batch(size: int) -> bytes:
    """Returns a batch whose items each explain 64 products of two unknowns."""
    products = [
        tensor_pb2.Dim(
            expression=tensor_pb2.Expression(
                coefficient=3, factors=[tensor_pb2.Symbol(name=f"a{place}"), tensor_pb2.Symbol(name=f"b{place}")]
            )
        )
        for place in range(64)
    ]
    first = _ask(products, [tensor_pb2.Dim(value=0)] * 64)
    linked = _ask(None, [_lie_within(1, 50), _lie_within(1, 60), tensor_pb2.Dim(value=-1)])
    linked.question.explain = True
    linked.data_from = 0
    return _fill(first, linked, size)


@cache
def build_colliding_batch(size: int) -> bytes:
    """Returns a batch whose intervals, as tuples of integers, have one hash."""
    items: list[reshape_pb2.BatchInferShapeItem] = []
    count = size // _ask([_lie_within(1 << 62, 1 << 61)], [tensor_pb2.Dim(value=0)]).ByteSize()
    for low, high in find_collisions(count):
        items.append(_ask([_lie_within(low, high)], [tensor_pb2.Dim(value=0)]))
    return reshape_pb2.BatchInferShapeRequest(items=items).SerializeToString()


def build_hard_question(number: int) -> bytes:
    """Returns a question about 12 products of unknowns, and unknown targets; each number has another."""
    symbols = [
        tensor_pb2.Symbol(name=f"s{number}_{place}", bounds=tensor_pb2.Interval(min=1, max=3 + place))
        for place in range(6)
    ]
    data = [
        tensor_pb2.Dim(expression=tensor_pb2.Expression(coefficient=2 + place, factors=symbols[: place % 3 + 1]))
        for place in range(12)
    ]
    question = _ask(data, [_lie_within(1, 50), _lie_within(1, 60), tensor_pb2.Dim(value=-1)]).question
    question.explain = True
    return question.SerializeToString()


@cache
def build_numbers(size: int) -> bytes:
    """Returns a ModelInferRequest of so many bytes, each of which is an element as a number."""
    return bytes(build_typed_request([1] * (size - 100)).SerializeToString())


def build_unknown_shape(number: int) -> bytes:
    """Returns a ModelInferRequest that asks for a shape, and is too long to be read at once; each has another."""
    dims, target = [-1] * 60 + [number] * 4, str([0] * 63 + [-1])
    return bytes(build_question(dims, target, special_zero=True, id="x" * 8000).SerializeToString())


def encode_headers(*fields: tuple[str, str]) -> bytes:
    """Returns a header block of literals, which leave nothing in any table."""
    return b"".join(b"\x00" + _encode_text(name) + _encode_text(value) for name, value in fields)


def encode_call(path: str, *more: tuple[str, str]) -> bytes:
    """Returns the header block of a call."""
    return encode_headers(*list_call_headers(path), *more)


def _encode_text(text: str) -> bytes:
    raw = text.encode()
    if len(raw) < 127:
        return bytes([len(raw)]) + raw
    size, number = len(raw) - 127, bytearray([127])
    while size >= 128:
        number.append(size & 127 | 128)
        size >>= 7
    return bytes(number) + bytes([size]) + raw


def _ask(data: Sequence[tensor_pb2.Dim] | None, target: Sequence[tensor_pb2.Dim]) -> reshape_pb2.BatchInferShapeItem:
    question = reshape_pb2.InferShapeRequest(
        operation=reshape_pb2.OPERATION_RESHAPE, special_zero=True, shape=tensor_pb2.Shape(dims=target)
    )
    if data is not None:
        question.data.shape.dims.extend(data)
    return reshape_pb2.BatchInferShapeItem(question=question)


def _fill(first: reshape_pb2.BatchInferShapeItem, linked: reshape_pb2.BatchInferShapeItem, size: int) -> bytes:
    if size > MAX_BATCH_BYTES:
        message = f"{size} bytes are more than a batch may have"
        raise ValueError(message)
    count = (size - first.ByteSize()) // (linked.ByteSize() + 4)
    return reshape_pb2.BatchInferShapeRequest(items=[first, *[linked] * count]).SerializeToString()


def _lie_within(low: int, high: int) -> tensor_pb2.Dim:
    return tensor_pb2.Dim(interval=tensor_pb2.Interval(min=low, max=high))


def find_collisions(count: int) -> list[tuple[int, int]]:
    """Returns pairs that have the hash of (1, 2**60): CPython's hash of a tuple is xxHash without a key."""
    return list(islice(_find_collisions(), count))


def _find_collisions() -> Iterator[tuple[int, int]]:
    back_1, back_2 = pow(_XX_1, -1, _WORD), pow(_XX_2, -1, _WORD)
    wanted = _mix(_mix(_XX_5, 1), 2**60)
    before = _rotate(wanted * back_1 % _WORD, 33)
    low = 1
    while True:
        high = (before - _mix(_XX_5, low)) * back_2 % _WORD
        if low < high < 2**61 - 1:
            yield low, high
        low += 1


def _mix(state: int, value: int) -> int:
    return _rotate((state + value * _XX_2) % _WORD, 31) * _XX_1 % _WORD


def _rotate(value: int, bits: int) -> int:
    return (value << bits | value >> (64 - bits)) % _WORD
