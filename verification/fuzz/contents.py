"""The contents of the messages: tensors and requested shapes that mostly match."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod
from random import Random

from tensor_reshape.rules.dtypes import DataType
from tensor_reshape.rules.layouts import compute_span
from verification.fuzz.encodings import INTEGERS

LONG_PAYLOADS = (127, 128, 129, 2**14 - 1, 2**14, 2**14 + 1, 2**16, 70000)
_DIMS = (0, 1, 1, 2, 2, 3, 4, 8)
_RANKS = (0, 1, 1, 2, 2, 3, 4)
_FLOATS = (DataType.F32, DataType.F32, DataType.F16, DataType.BF16)
_ALL_TYPES = tuple(DataType)
_SHAPE_TYPES = (DataType.I64, DataType.I64, DataType.U64, DataType.I32, DataType.I16)
_ODD_TYPES = (0, len(DataType) + 1, 2**31, 2**32 + 14, -1)


@dataclass(frozen=True)
class Tensor:
    """The contents of a tensor message. A `payload` of None omits the field."""

    data_type: int
    dims: Sequence[int]
    strides: Sequence[int]
    payload: bytes | None


def choose_tensor(random: Random, operation: str) -> Tensor:
    """Chooses a tensor. Mostly its number of bytes is right, and `operation` supports its type."""
    data_type = random.choice(_ALL_TYPES if operation == "reshape" or random.random() < 0.03 else _FLOATS)
    dims = [random.choice(_DIMS) for _ in range(random.choice(_RANKS))]
    if random.random() < 0.004:
        dims = [random.choice(LONG_PAYLOADS) if random.random() < 0.98 else 2**21 + 5]
    strides = _choose_strides(random, dims)
    span = compute_span(dims, strides) if strides else prod(dims)
    payload = fill(random, data_type.count_bytes(span))
    if random.random() > 0.08:
        return Tensor(data_type, dims, strides, payload)
    odd = [random.choice(INTEGERS) for _ in range(random.choice((1, 1, 2, 3, 13, 65)))]
    return random.choice(
        (
            Tensor(random.choice((*_ODD_TYPES, *DataType)), dims, strides, payload),
            Tensor(data_type, odd, strides, payload),
            Tensor(data_type, dims, odd, payload),
            Tensor(data_type, dims, strides, None),
            Tensor(data_type, dims, strides, payload + random.choice((b"\x7a\x00", b"\x00", b"\x08\x0e"))),
        )
    )


def _choose_strides(random: Random, dims: list[int]) -> list[int]:
    share = random.random()
    if share < 0.75:
        return []
    if share < 0.9:  # column-major: as many bytes as dense ones, in another order
        return [prod(dims[:index]) for index in range(len(dims))]
    return [random.choice((0, 0, 1, 2, 3)) for _ in dims]


def fill(random: Random, size: int) -> bytes:
    """Returns bytes that look like fields 15 up to the end, like the beginning of a tensor, or random bytes."""
    kind = random.randrange(4)
    if kind == 0 and size <= 129:
        return b"".join([bytes((0x7A, left - 2)) for left in range(size, 1, -2)]) + bytes(size % 2)
    if kind == 1:
        return b"\x7a" * size
    if kind == 2:
        return (b"\x08\x0e\x12\x01\x01" * (size // 5 + 1))[:size]
    return random.randbytes(size)


def choose_target(random: Random, dims: Sequence[int]) -> list[int]:
    """Chooses a requested shape that mostly matches the data."""
    kind = random.randrange(12)
    if kind < 5:
        return [-1]
    if kind < 8:
        return list(reversed(dims))
    if kind < 10:
        return [0] * random.randint(0, max(len(dims) - 1, 0)) + [-1]
    if kind < 11:
        return [prod(dims) % 2**63]
    return [random.choice(INTEGERS) for _ in range(random.choice((1, 2, 3, 13, 65)))]


def choose_shape_tensor(random: Random, operation: str, target: list[int]) -> Tensor:
    """Chooses how the requested shape is written as a tensor."""
    data_type = DataType.I32 if operation == "dynamic_reshape" else random.choice(_SHAPE_TYPES)
    size = data_type.group_bytes
    payload = b"".join([(item % 256**size).to_bytes(size, "little") for item in target])
    tensor = Tensor(data_type, [len(target)], [], payload)
    if random.random() > 0.05:
        return tensor
    return random.choice(
        (
            choose_tensor(random, "reshape"),
            replace(tensor, dims=[len(target), 1]),
            replace(tensor, strides=[1]),
            Tensor(data_type, [random.choice((1, 3, 64, 65, 2**40))], [0], payload[:size]),
            Tensor(data_type, [2], [3], payload[:size] * 4),
        )
    )
