"""What an execution gives, read plainly: bytes in, bytes out, element by element; and wrong ones.

Written apart from the product. As in `planted_shapes`, a mistake replaces a part of the plain reading.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod

from tensor_reshape.rules.records import Json
from verification.kit.readings import refuse

_GROUPS = {
    "u1": (8, 1),
    "u2": (4, 1),
    "u3": (8, 3),
    "u6": (4, 3),
    **dict.fromkeys(("u4", "i4", "nf4", "f4e2m1"), (2, 1)),
}
"""How many elements share how many bytes."""

_BYTES = {"boolean": 1, "f8e8m0": 1, "f16": 2, "bf16": 2, "f32": 4}


def _list_places(dims: Sequence[int], strides: Sequence[int] | None) -> list[int]:
    """Returns where each element lies, in row-major order."""
    places = [0]
    for dim, step in zip(dims, _list_dense(dims) if strides is None else strides, strict=True):
        places = [place + index * step for place in places for index in range(dim)]
    return places


def _list_dense(dims: Sequence[int]) -> list[int]:
    return [prod(dims[index + 1 :]) for index in range(len(dims))]


def _check_overlap(dims: Sequence[int], places: Sequence[int], strides: Sequence[int]) -> None:
    """Checks that no two elements lie at one place, broadcasts aside."""
    repeats = prod(dim for dim, stride in zip(dims, strides, strict=False) if stride == 0)
    if len(set(places)) * repeats != len(places):
        refuse()


def _count_packed(data_type: str, dims: Sequence[int]) -> int:
    """Returns how many bytes there are."""
    elements, size = _GROUPS[data_type]
    return -(-prod(dims) // elements) * size


@dataclass(frozen=True, slots=True)
class Execution:
    """The plain reading.

    Attributes:
        list_places: returns where each element lies, in row-major order.
        measure: returns how many elements of a buffer count, of those that are wanted and those that are there.
        check_overlap: checks that no two elements lie at one place.
        keep: returns an element as it is written.
        count_packed: returns how many bytes elements take that share bytes.
        takes_packed_strides: whether these may have strides, which are not looked at.
        keep_packed: returns the bytes of these as they are written.
    """

    list_places: Callable[[Sequence[int], Sequence[int] | None], list[int]] = _list_places
    measure: Callable[[int, int], int] = lambda _, have: have
    check_overlap: Callable[[Sequence[int], Sequence[int], Sequence[int]], object] = _check_overlap
    keep: Callable[[str, bytes], bytes] = lambda _, element: element
    count_packed: Callable[[str, Sequence[int]], int] = _count_packed
    takes_packed_strides: bool = False
    keep_packed: Callable[[str, Sequence[int], bytes], bytes] = lambda _type, _dims, raw: raw

    def run(self, question: Json) -> str:
        """Returns the output's bytes.

        Raises:
            RefusalError: the bytes are not the tensor's.
        """
        raw, dims, strides = bytes.fromhex(question["bytes"]), question["data"], question.get("strides")
        data_type = question["data_type"]
        if data_type in _GROUPS:
            if (strides and not self.takes_packed_strides) or self.count_packed(data_type, dims) != len(raw):
                refuse()
            return self.keep_packed(data_type, dims, raw).hex()
        size, places = _BYTES[data_type], self.list_places(dims, strides)
        want = 1 + max(places, default=-1)
        if want != self.measure(want, len(raw) // size):
            refuse()
        self.check_overlap(dims, places, strides or [])
        return b"".join(self.keep(data_type, raw[place * size : (place + 1) * size]) for place in places).hex()


def _read_dense(dims: Sequence[int], strides: Sequence[int] | None) -> list[int]:
    places = _list_places(dims, strides)
    return list(range(len(places))) if max(places, default=-1) == len(places) - 1 else places


def _read_columns(dims: Sequence[int], strides: Sequence[int] | None) -> list[int]:
    return _list_places(dims[::-1], (strides or _list_dense(dims))[::-1]) if 0 not in dims else []


def _read_what_is_there(dims: Sequence[int], strides: Sequence[int] | None) -> list[int]:
    places = _list_places(dims, strides)
    gaps = len(set(places)) == len(places) != 1 + max(places, default=-1)
    return [*range(len(places) - 1), max(places)] if gaps else places


def _clear_spare_bits(data_type: str, dims: Sequence[int], raw: bytes) -> bytes:
    return raw[:-1] + bytes([raw[-1] & 15]) if _GROUPS[data_type] == (2, 1) and prod(dims) % 2 else raw


def _swap_halves(data_type: str, _: Sequence[int], raw: bytes) -> bytes:
    return bytes([byte % 16 * 16 + byte // 16 for byte in raw]) if _GROUPS[data_type] == (2, 1) else raw


def _make_quiet(data_type: str, element: bytes) -> bytes:
    return element[:2] + b"\xc0\x7f" if data_type == "f32" and element[2:] == b"\x80\x7f" else element


RUN_MISTAKES = {
    "strides are not looked at": Execution(list_places=_read_dense),
    "the first index is the fastest": Execution(list_places=_read_columns),
    "the elements are those of the buffer in its order, gaps too": Execution(list_places=_read_what_is_there),
    "bytes behind the last element are ignored": Execution(measure=min),
    "bytes behind the end of the buffer are 0": Execution(measure=max),
    "two elements may lie at one place": Execution(check_overlap=lambda *_: None),
    "a stride of 0 is an overlap": Execution(
        check_overlap=lambda dims, places, strides: _check_overlap(dims, places, [stride or 1 for stride in strides])
    ),
    "each row begins at a byte of its own": Execution(
        count_packed=lambda data_type, dims: prod(dims[:-1]) * _count_packed(data_type, dims[-1:])
    ),
    "elements that do not fill a byte are forgotten": Execution(
        count_packed=lambda data_type, dims: prod(dims) // _GROUPS[data_type][0] * _GROUPS[data_type][1]
    ),
    "elements of 3 and 6 bits follow one another without groups": Execution(
        count_packed=lambda data_type, dims: -(-prod(dims) * _GROUPS[data_type][1] // _GROUPS[data_type][0])
    ),
    "each element has a byte": Execution(
        count_packed=lambda data_type, dims: (
            prod(dims) if _GROUPS[data_type][0] == 2 else _count_packed(data_type, dims)
        )
    ),
    "strides of elements that share bytes are ignored": Execution(takes_packed_strides=True),
    "bits behind the last element become 0": Execution(keep_packed=_clear_spare_bits),
    "the halves of a byte are swapped": Execution(keep_packed=_swap_halves),
    "a NaN that signals is made quiet, as an FPU does": Execution(keep=_make_quiet),
    "a boolean is 0 or 1": Execution(
        keep=lambda data_type, element: bytes([any(element)]) if data_type == "boolean" else element
    ),
}
"""Wrong executions, by what is wrong."""
