"""What an execution gives, read plainly: bytes in, bytes out, element by element; and wrong ones.

Written apart from the product. As in `planted_shapes`, a mistake is a method of a class of its own.
"""

from collections.abc import Sequence
from math import prod

from tensor_reshape.rules.records import Json
from verification.kit.readings import RefusalError

_GROUPS = {
    "u1": (8, 1),
    "u2": (4, 1),
    "u3": (8, 3),
    "u6": (4, 3),
    **dict.fromkeys(("u4", "i4", "nf4", "f4e2m1"), (2, 1)),
}
"""How many elements share how many bytes."""

_BYTES = {"boolean": 1, "f8e8m0": 1, "f16": 2, "bf16": 2, "f32": 4}


class Execution:
    """The plain reading."""

    def run(self, question: Json) -> str:
        """Returns the output's bytes.

        Raises:
            RefusalError: the bytes are not the tensor's.
        """
        raw, dims, strides = bytes.fromhex(question["bytes"]), question["data"], question.get("strides")
        if question["data_type"] in _GROUPS:
            return self.run_packed(question["data_type"], dims, strides, raw).hex()
        size = _BYTES[question["data_type"]]
        places = self.list_places(dims, strides)
        self.check_size(1 + max(places, default=-1), len(raw) // size)
        self.check_overlap(dims, places, strides or [])
        return b"".join(
            self.keep(question["data_type"], raw[place * size : (place + 1) * size]) for place in places
        ).hex()

    def run_packed(self, data_type: str, dims: Sequence[int], strides: Sequence[int] | None, raw: bytes) -> bytes:
        """Returns the bytes of elements that share them."""
        if strides is not None or self.count_packed(data_type, dims) != len(raw):
            raise RefusalError
        return raw

    def count_packed(self, data_type: str, dims: Sequence[int]) -> int:
        """Returns how many bytes there are."""
        elements, size = _GROUPS[data_type]
        return -(-prod(dims) // elements) * size

    def list_places(self, dims: Sequence[int], strides: Sequence[int] | None) -> list[int]:
        """Returns where each element lies, in row-major order."""
        steps = [prod(dims[index + 1 :]) for index in range(len(dims))] if strides is None else strides
        places = [0]
        for dim, step in zip(dims, steps, strict=True):
            places = [place + index * step for place in places for index in range(dim)]
        return places

    def check_size(self, want: int, have: int) -> None:
        """Checks that the buffer ends with its last element."""
        if want != have:
            raise RefusalError

    def check_overlap(self, dims: Sequence[int], places: Sequence[int], strides: Sequence[int]) -> None:
        """Checks that no two elements lie at one place, broadcasts aside."""
        repeats = prod(dim for dim, stride in zip(dims, strides, strict=False) if stride == 0)
        if len(set(places)) * repeats != len(places):
            raise RefusalError

    def keep(self, data_type: str, element: bytes) -> bytes:
        """Returns an element as it is written: as it was."""
        del data_type
        return element


class ReadsDense(Execution):
    """Strides are not looked at."""

    def list_places(self, dims: Sequence[int], strides: Sequence[int] | None) -> list[int]:
        places = super().list_places(dims, strides)
        return list(range(len(places))) if max(places, default=-1) == len(places) - 1 else places


class ReadsColumns(Execution):
    """The first index is the fastest."""

    def list_places(self, dims: Sequence[int], strides: Sequence[int] | None) -> list[int]:
        dense = super().list_places(dims, None)
        turned = super().list_places(
            dims[::-1], (strides or [prod(dims[index + 1 :]) for index in range(len(dims))])[::-1]
        )
        return turned if dense else []


class ReadsWhatIsThere(Execution):
    """The elements are those of the buffer, in its order, gaps too."""

    def list_places(self, dims: Sequence[int], strides: Sequence[int] | None) -> list[int]:
        places = super().list_places(dims, strides)
        gaps = len(set(places)) == len(places) != 1 + max(places, default=-1)
        return [*range(len(places) - 1), max(places)] if gaps else places


class TakesLongerBuffers(Execution):
    """What lies behind the last element is ignored."""

    def check_size(self, want: int, have: int) -> None:
        super().check_size(want, min(want, have))


class TakesShorterBuffers(Execution):
    """What lies behind the end of the buffer is 0."""

    def check_size(self, want: int, have: int) -> None:
        super().check_size(want, max(want, have))


class TakesOverlaps(Execution):
    """Two elements may lie at one place."""

    def check_overlap(self, dims: Sequence[int], places: Sequence[int], strides: Sequence[int]) -> None:
        pass


class RefusesBroadcasts(Execution):
    """A stride of 0 is an overlap."""

    def check_overlap(self, dims: Sequence[int], places: Sequence[int], strides: Sequence[int]) -> None:
        super().check_overlap(dims, places, [stride or 1 for stride in strides])


class PadsRows(Execution):
    """Each row begins at a byte of its own."""

    def count_packed(self, data_type: str, dims: Sequence[int]) -> int:
        return prod(dims[:-1]) * super().count_packed(data_type, dims[-1:])


class RoundsBytesDown(Execution):
    """Elements that do not fill a byte are forgotten."""

    def count_packed(self, data_type: str, dims: Sequence[int]) -> int:
        elements, size = _GROUPS[data_type]
        return prod(dims) // elements * size


class PacksBits(Execution):
    """Elements of 3 and 6 bits follow one another bit by bit, without groups."""

    def count_packed(self, data_type: str, dims: Sequence[int]) -> int:
        elements, size = _GROUPS[data_type]
        return -(-prod(dims) * size // elements)


class HasAByteForEach(Execution):
    """Each element has a byte."""

    def count_packed(self, data_type: str, dims: Sequence[int]) -> int:
        return prod(dims) if _GROUPS[data_type][0] == 2 else super().count_packed(data_type, dims)


class TakesStridesOfPacked(Execution):
    """Strides of elements that share bytes are ignored."""

    def run_packed(self, data_type: str, dims: Sequence[int], strides: Sequence[int] | None, raw: bytes) -> bytes:
        return super().run_packed(data_type, dims, strides and None, raw)


class ClearsSpareBits(Execution):
    """Bits behind the last element become 0."""

    def run_packed(self, data_type: str, dims: Sequence[int], strides: Sequence[int] | None, raw: bytes) -> bytes:
        kept = super().run_packed(data_type, dims, strides, raw)
        return kept[:-1] + bytes([kept[-1] & 15]) if _GROUPS[data_type] == (2, 1) and prod(dims) % 2 else kept


class SwapsHalves(Execution):
    """The higher half of a byte is the first element where they are unpacked, the lower one where they are packed."""

    def run_packed(self, data_type: str, dims: Sequence[int], strides: Sequence[int] | None, raw: bytes) -> bytes:
        kept = super().run_packed(data_type, dims, strides, raw)
        return bytes([byte % 16 * 16 + byte // 16 for byte in kept]) if _GROUPS[data_type] == (2, 1) else kept


class QuietsNans(Execution):
    """A NaN that signals is made quiet, as an FPU does that loads it."""

    def keep(self, data_type: str, element: bytes) -> bytes:
        signals = data_type == "f32" and element[2:] == b"\x80\x7f"
        return element[:2] + b"\xc0\x7f" if signals else element


class NormalizesBooleans(Execution):
    """A boolean is 0 or 1."""

    def keep(self, data_type: str, element: bytes) -> bytes:
        return bytes([any(element)]) if data_type == "boolean" else element


EXECUTIONS: tuple[type[Execution], ...] = (
    ReadsDense,
    ReadsColumns,
    ReadsWhatIsThere,
    TakesLongerBuffers,
    TakesShorterBuffers,
    TakesOverlaps,
    RefusesBroadcasts,
    PadsRows,
    RoundsBytesDown,
    PacksBits,
    HasAByteForEach,
    TakesStridesOfPacked,
    ClearsSpareBits,
    SwapsHalves,
    QuietsNans,
    NormalizesBooleans,
)
"""Those whose mistake shows where bytes are moved."""
