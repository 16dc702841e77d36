"""Generates millions of valid and almost valid messages. All of them follow from a seed.

Messages come in families: one message in several encodings, with other bytes in its tensor, with an error, and sent to
another method. This tests caches: after a server has cached one message, it receives similar ones.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from random import Random
from typing import NamedTuple

from tensor_reshape.rules.limits import MAX_HEADER_BYTES
from tests.oracles.headers import PAYLOAD_FIELD, measure_header
from verification.fuzz.batches import BatchWriter
from verification.fuzz.contents import LONG_PAYLOADS, Tensor, choose_shape_tensor, choose_target, choose_tensor, fill
from verification.fuzz.encodings import INTEGERS, Encoder, encode_varint, mutate, zigzag
from verification.fuzz.inferences import InferenceWriter

METHODS = ("static_reshape", "dynamic_reshape", "reshape")
STREAM_KINDS = ("to_server", "to_client")
BATCH_KINDS = ("questions", "answers")
INFERENCE = "inference"
KINDS = (*METHODS, "response", *STREAM_KINDS, *BATCH_KINDS, INFERENCE)
# Requests are the most frequent, because only they get a response, from a service that caches.
_FAMILIES = (
    *METHODS * 3,
    *("response", "response", "to_server", "to_server", "to_client"),
    *("questions", "questions", "answers"),
    *(INFERENCE, INFERENCE, INFERENCE),
)
_LIBERTIES = (0.02, 0.1, 0.1, 0.3, 0.6)
_SIZES = (0, 1, 8, 8, 64, 64, 130)
_PADDING = 65000  # a header below the limit; its lengths have as many bytes as those of a header above the limit


class Input(NamedTuple):
    """An input that is parsed as a message of a kind; `kind` is one of `KINDS`."""

    kind: str
    raw: bytes


@dataclass(frozen=True)
class Padding:
    """Unknown fields before the others: `size` bytes in one field or in many, in the tensor or in front of it."""

    size: int = 0
    inner: bool = False
    flood: bool = False

    def build(self, *, inner: bool) -> list[bytes]:
        """Returns the fields for this position."""
        if not self.size or inner != self.inner:
            return []
        if self.flood:
            return [b"\x28\x01" * (self.size // 2) + b"\x81\x00" * (self.size % 2)]
        return [b"\x2a" + encode_varint(self.size) + bytes(self.size)]


def generate(random: Random) -> Iterator[Input]:
    """Yields inputs without end."""
    while True:
        yield from _build_family(random)


def _build_family(random: Random) -> Iterator[Input]:
    kind, seed = random.choice(_FAMILIES), random.getrandbits(64)
    if kind not in (*BATCH_KINDS, INFERENCE) and random.random() < 0.002:
        yield Input(kind, _build_large_header(kind, seed))
        return
    if random.random() < 0.05:
        yield Input(kind, random.randbytes(random.randint(0, 40)))
    # The first encoding is that of the generated classes, so the service has cached it when the unusual ones come.
    raw = _Message(Encoder(random, 0.0), seed).build(kind)
    yield Input(kind, raw)
    for liberty in random.choices(_LIBERTIES, k=3):
        yield Input(kind, _Message(Encoder(random, liberty), seed).build(kind))
    yield from _change(random, kind, raw)
    if kind in METHODS:
        others = [other for other in METHODS if other != kind]
        yield from (Input(other, raw) for other in others if random.random() < 0.3)
    elif random.random() < 0.05:
        yield Input(random.choice(KINDS), raw)


def _change(random: Random, kind: str, raw: bytes) -> Iterator[Input]:
    """Yields the message with another last byte, which mostly belongs to its tensor, and with errors."""
    if raw:
        yield Input(kind, raw[:-1] + bytes((raw[-1] ^ 1,)))
    for _ in range(random.choice((1, 2))):
        changed = mutate(random, raw)
        while random.random() < 0.1:
            changed = mutate(random, changed)
        yield Input(kind, changed)


def _build_large_header(kind: str, seed: int) -> bytes:
    """Returns a message whose header has the maximum size, or some bytes less or more."""
    random = Random(seed)
    padding = Padding(_PADDING, inner=random.random() < 0.5, flood=random.random() < 0.01)
    liberty, wanted = random.choice((0, *_LIBERTIES)), MAX_HEADER_BYTES + random.choice((-1, 0, 0, 1, 1, 2))
    raw = _Message(Encoder(Random(seed), liberty), seed, padding).build(kind)
    missing = wanted - measure_header(raw, nested=kind not in STREAM_KINDS)
    padding = replace(padding, size=max(padding.size + missing, 0))
    return _Message(Encoder(Random(seed), liberty), seed, padding).build(kind)


class _Message:
    """The message of a seed, as an encoder writes it that chooses between valid encodings."""

    def __init__(self, encoder: Encoder, seed: int, padding: Padding | None = None) -> None:
        self._encoder = encoder
        self._random = Random(seed)
        self._padding = padding or Padding()

    def build(self, kind: str) -> bytes:
        if kind in METHODS:
            return self._encoder.join(self._write_request(kind, streams=False))
        if kind == INFERENCE:
            return self._encoder.join(InferenceWriter(self._encoder, self._random).write())
        if kind in BATCH_KINDS:
            batch = BatchWriter(self._encoder, self._random)
            return self._encoder.join(batch.write_questions() if kind == "questions" else batch.write_answers())
        front = self._padding.build(inner=False)
        if kind == "response":
            output = self._write_tensor(choose_tensor(self._random, "reshape"), padded=True)
            return self._encoder.join([*front, *self._encoder.message(PAYLOAD_FIELD, output)])
        part = self._write_output() if kind == "to_client" else self._write_begin()
        chunk, share = self._write_chunk(), self._random.random()
        return self._encoder.join([*front, *(chunk if share < 0.45 else part if share < 0.9 else chunk + part)])

    def _write_request(self, method: str, *, streams: bool) -> list[bytes]:
        random, encoder = self._random, self._encoder
        data = choose_tensor(random, method)
        target = choose_target(random, data.dims)
        if streams and random.random() < 0.9:
            data = replace(data, payload=None)
        if method == "static_reshape":
            shape = encoder.message(1, self._write_items(target)) if random.random() < 0.98 else []
        else:
            shape = encoder.message(1, self._write_tensor(choose_shape_tensor(random, method, target)))
        said = [encoder.number(2, random.choice((0, 1, 1, 1, 2**40)))] if random.random() < 0.98 else []
        fields = [*self._padding.build(inner=False), *shape, *said]
        if random.random() < 0.1:
            fields += encoder.message(3, self._write_expected(target))
        return fields + encoder.message(PAYLOAD_FIELD, self._write_tensor(data, padded=True))

    def _write_tensor(self, tensor: Tensor, *, padded: bool = False) -> list[bytes]:
        encoder = self._encoder
        fields = [
            *(self._padding.build(inner=True) if padded else ()),
            encoder.number(1, tensor.data_type),
            *encoder.numbers(2, list(tensor.dims)),
            *encoder.numbers(3, list(tensor.strides)),
        ]
        return fields if tensor.payload is None else [*fields, encoder.field(PAYLOAD_FIELD, tensor.payload)]

    def _write_expected(self, target: list[int]) -> list[bytes]:
        dims = [dim if self._random.random() < 0.5 else -1 for dim in target]
        pieces = self._encoder.numbers(1, list(map(zigzag, dims)))
        if self._encoder.deviates():
            pieces.append(self._encoder.field(2, self._encoder.unknown()))
        return pieces

    def _write_items(self, target: list[int]) -> list[bytes]:
        pieces = self._encoder.numbers(1, list(map(zigzag, target)))
        if self._encoder.deviates(0.1):
            pieces.append(self._encoder.field(2, self._random.choice((b"", self._encoder.unknown()))))
        return pieces

    def _write_chunk(self) -> list[bytes]:
        random, encoder = self._random, self._encoder
        offset = random.choice((0, 0, 1, 64, 2**20, *INTEGERS))
        size = random.choice(_SIZES if random.random() < 0.99 else LONG_PAYLOADS)
        chunk = [encoder.field(PAYLOAD_FIELD, fill(random, size))]
        return [encoder.number(4, offset), *chunk] if offset or encoder.deviates() else chunk

    def _write_begin(self) -> list[bytes]:
        number = self._random.randrange(len(METHODS))
        return self._encoder.message(1 + number, self._write_request(METHODS[number], streams=True))

    def _write_output(self) -> list[bytes]:
        output = choose_tensor(self._random, "reshape")
        bare = output if self._random.random() < 0.1 else replace(output, strides=[], payload=None)
        return self._encoder.message(1, self._write_tensor(bare, padded=True))
