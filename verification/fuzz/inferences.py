"""Requests of the Open Inference Protocol, as an encoder writes them that chooses between valid encodings."""

from math import prod
from random import Random

from tensor_reshape.server.oip.datatypes import DATATYPES
from verification.fuzz.contents import choose_target, fill
from verification.fuzz.encodings import INTEGERS, Encoder

_MODELS = (b"reshape", b"reshape", b"reshape", b"static_reshape", b"dynamic_reshape", b"infer_shape")
_ODD_NAMES = (b"", b"resnet", b"\xff", b"x" * 200, "größe".encode())
_IDS = (b"", b"", b"1", b"seven", b"x" * 127, b"x" * 128, b"\x1a\x011", "größe".encode())
_DIMS = (0, 1, 1, 2, 2, 3, 4, 8)
# Bounds the number of elements: a wrong length can make the parser read elements as fields, and it checks only some.
_LONG_DIMS = (127, 128, 129, 600)
_RANKS = (0, 1, 1, 2, 2, 3, 4)
_TYPED = {"INT8": 2, "INT16": 2, "INT32": 2, "INT64": 3, "UINT8": 4, "UINT16": 4, "UINT32": 4, "UINT64": 5, "BOOL": 1}
_TYPED_SHARE = 0.15


class InferenceWriter:
    """Writes the fields of a request. `random` decides their values, and the encoder decides their encoding."""

    def __init__(self, encoder: Encoder, random: Random) -> None:
        """Writes with the encoder, and takes all decisions from `random`."""
        self._encoder = encoder
        self._random = random

    def write(self) -> list[bytes]:
        """Writes a request, which is mostly valid."""
        random, encoder = self._random, self._encoder
        model = random.choice(_MODELS if random.random() < 0.95 else _ODD_NAMES)
        dims = [random.choice(_DIMS) for _ in range(random.choice(_RANKS))]
        if random.random() < 0.01:
            dims = [random.choice(_LONG_DIMS)]
        target = choose_target(random, dims)
        texts = [(1, model), (2, random.choice((b"", b"", b"1", b"2"))), (3, random.choice(_IDS))]
        fields = [encoder.field(number, text) for number, text in texts if text]
        fields += self._write_parameter(b"special_zero", self._encoder.number(1, random.randrange(2)), 0.97)
        tensors = [self._write_shape(dims) if model == b"infer_shape" else self._write_data(model, dims)]
        if random.random() < 0.5:
            text = f"[{','.join(map(str, target))}]".encode()
            fields += self._write_parameter(b"shape", encoder.field(3, text), 0.97)
        else:
            tensors.append(self._write_items(b"shape", target))
        if random.random() < 0.2:
            random.shuffle(tensors)
        fields += [encoder.field(5, encoder.join(described)) for described, _ in tensors]
        name = b"output" if model != b"infer_shape" else b"shape"
        if random.random() < 0.3:
            fields.append(encoder.field(6, encoder.field(1, name if random.random() < 0.9 else b"other")))
        return fields + [encoder.field(7, content) for _, content in tensors if content is not None]

    def _write_parameter(self, key: bytes, choice: bytes, share: float) -> list[bytes]:
        if self._random.random() > share:
            return []
        return [self._encoder.field(4, self._encoder.field(1, key) + self._encoder.field(2, choice))]

    def _write_data(self, model: bytes, dims: list[int]) -> tuple[list[bytes], bytes | None]:
        """Returns the description of the elements and, if they are raw, the elements."""
        names = [*DATATYPES] if model == b"reshape" or self._random.random() < 0.03 else ["FP32", "FP16", "BF16"]
        name = self._random.choice(names)
        described = self._describe(b"data", name if self._random.random() < 0.97 else "BYTES", dims)
        if name in _TYPED and self._random.random() < _TYPED_SHARE:
            numbers = [self._random.choice((0, 1, 1, 127, *INTEGERS)) for _ in range(prod(dims))]
            return [*described, *self._encoder.message(5, self._encoder.numbers(_TYPED[name], numbers))], None
        return described, fill(self._random, DATATYPES[name].count_bytes(prod(dims)) + (self._random.random() < 0.03))

    def _write_shape(self, dims: list[int]) -> tuple[list[bytes], bytes | None]:
        return self._write_items(b"data_shape", [-1 if self._random.random() < 0.3 else dim for dim in dims])

    def _write_items(self, name: bytes, items: list[int]) -> tuple[list[bytes], bytes]:
        size = self._random.choice((4, 8))
        payload = b"".join([(item % 256**size).to_bytes(size, "little") for item in items])
        return self._describe(name, "INT32" if size == 4 else "INT64", [len(items)]), payload

    def _describe(self, name: bytes, datatype: str, dims: list[int]) -> list[bytes]:
        encoder = self._encoder
        return [encoder.field(1, name), encoder.field(2, datatype.encode()), *encoder.numbers(3, dims)]
