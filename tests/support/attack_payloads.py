"""Messages and frames that attacks send."""

from functools import cache
from itertools import repeat
from random import Random

from http2 import (
    END_HEADERS,
    HEALTH_CHECK,
    HEALTH_WATCH,
    PREFACE,
    REFLECTION,
    SERVICE_PATH,
    Kind,
    frame,
    grpc_message,
    list_call_headers,
)
from plain_requests import build_begin, build_static_request, chunk
from tensor_reshape.v1 import reshape_pb2, tensor_pb2

STATIC, BATCH, STREAM = (f"{SERVICE_PATH}{name}" for name in ("StaticReshape", "BatchInferShape", "StreamReshape"))
SMALL = build_static_request()
FORGED_GOAWAY = frame(Kind.GOAWAY, 0, 0, bytes(4) + b"\0\0\0\1" + b'x\n{"level": "ERROR", "message": "forged"}\n')


def encode_call(path: str, *more: tuple[str, str]) -> bytes:
    """Returns the header block of a call. All headers are literals that are not added to the HPACK table."""
    fields = [*list_call_headers(path), *more]
    return b"".join(b"\x00" + _encode_text(name) + _encode_text(value) for name, value in fields)


def _encode_text(text: str) -> bytes:
    raw = text.encode()
    assert len(raw) < 127, "the length of longer text has several bytes"
    return bytes([len(raw)]) + raw


@cache
def build_linked_batch(size: int) -> bytes:
    """Returns a batch of `size` bytes. Its items of 39 bytes each refer to eight unknown dims of the first item."""
    first = _build_question(reshape_pb2.TargetShape(items=[0] * 8))
    data = tensor_pb2.Shape(dims=[-1] * 8, partial=[_build_range(place, 2, 9 + place) for place in range(8)])
    first.question.data.shape.CopyFrom(data)
    limits = [_build_range(place, 1, most) for place, most in enumerate((50, 60))]
    linked = _build_question(reshape_pb2.TargetShape(items=[-1] * 3, partial=limits))
    linked.data_from = 0
    count_linked = (size - first.ByteSize()) // (linked.ByteSize() + 4)
    return reshape_pb2.BatchInferShapeRequest(items=[first, *repeat(linked, count_linked)]).SerializeToString()


def _build_range(index: int, low: int, high: int) -> tensor_pb2.PartialDim:
    return tensor_pb2.PartialDim(index=index, interval=tensor_pb2.Interval(min=low, max=high))


def _build_question(shape: reshape_pb2.TargetShape) -> reshape_pb2.BatchInferShapeItem:
    operation = reshape_pb2.OPERATION_RESHAPE
    question = reshape_pb2.InferShapeRequest(operation=operation, special_zero=True, shape=shape)
    return reshape_pb2.BatchInferShapeItem(question=question)


@cache
def build_odd_strides() -> bytes:
    """Returns the header of a stream with 120 bytes and 23 strides that take long to check."""
    shape = tensor_pb2.Tensor(data_type=tensor_pb2.DATA_TYPE_I64, dims=[1], data=b"\xff" * 8)
    strides = [729421 + place for place in range(23)]
    data = tensor_pb2.Tensor(data_type=tensor_pb2.DATA_TYPE_U8, dims=[2] * 23, strides=strides)
    header = reshape_pb2.ReshapeRequest(shape=shape, special_zero=False, data=data)
    return reshape_pb2.StreamReshapeRequest(reshape=header).SerializeToString()


def build_frames(random: Random) -> bytes:
    """Returns the changed frames that one connection sends."""
    frames = [frame(Kind.SETTINGS, 0, 0)]
    for stream in range(1, 2 * random.randrange(1, 6), 2):
        frames += _build_call(random, stream)
    for _ in range(random.randrange(4)):  # additional frames with random types, flags and streams
        kind = random.randrange(12) if random.random() < 0.9 else random.randrange(256)
        size = random.choice((0, 1, 4, 5, 6, 8, 12, random.randrange(300)))
        stream = random.choice((0, 1, 2, 3, 5, 99, *_INTERESTING))
        invented = frame(kind, random.randrange(256), stream, random.randbytes(size))
        frames.insert(random.randrange(len(frames) + 1), invented)
    for _ in range(random.choice((0, 0, 1, 1, 2, 5))):
        _change(random, frames)
    greeting = PREFACE if random.random() < 0.95 else random.randbytes(len(PREFACE))
    return greeting + b"".join(frames)


_INTERESTING = (0, 1, 127, 128, 16384, 65535, 2**31 - 1, 2**31, 2**32 - 1)
_PATHS = (STATIC, STREAM, BATCH, f"{SERVICE_PATH}InferShape", HEALTH_CHECK, HEALTH_WATCH, REFLECTION, "/no/where")


def _build_call(random: Random, stream: int) -> list[bytes]:
    block = encode_call(random.choice(_PATHS))
    begun = grpc_message(build_begin((2,))) + grpc_message(chunk(0, b"abcdefgh"))
    body = random.choice((grpc_message(SMALL), begun, grpc_message(build_odd_strides()), b""))
    if random.random() < 0.3:
        body = _change_byte(random, body + b"\x00")
    cut = random.randrange(len(block) + 1) if random.random() < 0.2 else len(block)
    frames = [frame(Kind.HEADERS, END_HEADERS if cut == len(block) else 0, stream, block[:cut])]
    if cut < len(block):
        frames.append(frame(Kind.CONTINUATION, END_HEADERS, stream, block[cut:]))
    frames.append(frame(Kind.DATA, random.choice((0, 1, 1, 1)), stream, body))
    if random.random() < 0.2:
        frames.append(frame(Kind.RST_STREAM, 0, stream, random.randbytes(4)))
    return frames


def _change(random: Random, frames: list[bytes]) -> None:
    place = random.randrange(len(frames))
    match random.randrange(6):
        case 0:
            frames[place] = _change_byte(random, frames[place] or b"\x00")
        case 1:
            frames[place] = (random.choice(_INTERESTING) & 0xFFFFFF).to_bytes(3, "big") + frames[place][3:]
        case 2:
            frames[place] = frames[place][: random.randrange(len(frames[place]) + 1)]
        case 3:
            frames.insert(place, random.choice(frames))
        case 4:
            frames[place] = b""
        case _:
            random.shuffle(frames)


def _change_byte(random: Random, raw: bytes) -> bytes:
    changed = bytearray(raw)
    changed[random.randrange(len(changed))] = random.randrange(256)
    return bytes(changed)
