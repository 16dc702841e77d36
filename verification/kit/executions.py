"""A plain execution that is independent of the product: it moves bytes element by element."""

from base64 import b64decode, b64encode
from collections.abc import Sequence
from math import prod

from tensor_reshape.wire.json_messages import Json
from verification.kit.readings import reject

_BITS = {"u1": 1, "u2": 2, "u3": 3, "u6": 6, **dict.fromkeys(("u4", "i4", "nf4", "f4e2m1"), 4)}
"""The number of bits of each type smaller than a byte."""

_BYTES = {"boolean": 1, "f8e8m0": 1, "f16": 2, "bf16": 2, "f32": 4}


def _list_places(dims: Sequence[int], strides: Sequence[int] | None) -> list[int]:
    """Returns the offset of each element in row-major order."""
    places = [0]
    for dim, step in zip(dims, _list_dense(dims) if strides is None else strides, strict=True):
        places = [place + index * step for place in places for index in range(dim)]
    return places


def _list_dense(dims: Sequence[int]) -> list[int]:
    return [prod(dims[index + 1 :]) for index in range(len(dims))]


def _check_overlap(dims: Sequence[int], places: Sequence[int], strides: Sequence[int]) -> None:
    """Checks that no two elements overlap, except in a broadcast."""
    repeats = prod(dim for dim, stride in zip(dims, strides, strict=False) if stride == 0)
    if len(set(places)) * repeats != len(places):
        reject()


def _count_packed(data_type: str, dims: Sequence[int]) -> int:
    """Returns the number of bytes of a packed tensor."""
    return -(-prod(dims) * _BITS[data_type] // 8)


def execute(data: Json) -> str:
    """Returns the bytes of the output for a tensor, both in base64.

    Raises:
        RejectionError: the bytes do not match the tensor.
    """
    raw, dims, strides = b64decode(data["data"]), data["dims"], data.get("strides")
    data_type = data["dataType"].removeprefix("DATA_TYPE_").lower()
    if data_type in _BITS:
        if strides or _count_packed(data_type, dims) != len(raw):
            reject()
        return b64encode(raw).decode()
    size, places = _BYTES[data_type], _list_places(dims, strides)
    if 1 + max(places, default=-1) != len(raw) // size:
        reject()
    _check_overlap(dims, places, strides or [])
    return b64encode(b"".join(raw[place * size : (place + 1) * size] for place in places)).decode()
