"""Elements below one byte: packed as they travel, and one a byte as ml_dtypes has them in memory.

Laws:

- What is packed here has 2 or 4 elements a byte, the first one in the lowest bits: so every border of bytes is one of
  elements, and any piece of a tensor can be packed or unpacked by itself. Of the packed types all that ml_dtypes has
  are so; the others of OpenVINO have no form in memory, and are never unpacked.
- Spare bits of the last byte are written as 0 and not read.
- Elements are handled a word at a time, which holds those of one packed byte. Besides what is packed or unpacked, that
  takes the memory of a block, whatever the size.
"""

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from tensor_reshape.rules.dtypes import DataType, ElementKind

Bytes = npt.NDArray[np.uint8]

_BLOCK_BYTES = 65536
"""How many packed bytes are handled at once: the words of as many stay in the processor's cache."""


def pack(data_type: DataType, elements: Bytes) -> Bytes:
    """Returns `elements`, one a byte and in any number, as the bytes that travel: themselves, of an unpacked type."""
    if not data_type.is_packed:
        return elements
    packed = np.empty(data_type.count_bytes(elements.size), np.uint8)
    for begin, chosen in _cut(data_type, elements, packed.size):
        missing = -chosen.size % data_type.group_items  # in the last byte
        whole = np.append(chosen, np.zeros(missing, np.uint8)) if missing else chosen
        words = whole.view(_find_word(data_type)) & _mask_word(data_type)  # ml_dtypes extends the sign over the byte
        for shift in _list_shifts(data_type):
            words |= words >> shift
        packed[begin : begin + _BLOCK_BYTES] = words.astype(np.uint8)  # its lowest byte
    return packed


def unpack(data_type: DataType, packed: Bytes, elements: Bytes) -> None:
    """Writes the elements that have travelled as `packed` to `elements`, as many as that holds."""
    if not data_type.is_packed:
        elements[:] = packed
        return
    for begin, chosen in _cut(data_type, elements, packed.size):
        words = packed[begin : begin + _BLOCK_BYTES].astype(_find_word(data_type))
        for shift in _list_shifts(data_type):
            words |= words << shift
        words &= _mask_word(data_type)
        found = words.view(np.uint8)
        if data_type.kind is ElementKind.SIGNED:
            # The highest bit of an element becomes all that are above it: with 4 bits, 0b1110 is 0b11111110.
            sign = np.uint8(1 << (data_type.bits - 1))
            found ^= sign
            found -= sign
        chosen[:] = found[: chosen.size]


def _cut(data_type: DataType, elements: Bytes, packed_bytes: int) -> Iterator[tuple[int, Bytes]]:
    """Yields where each block of the packed bytes begins, and the elements in it."""
    for begin in range(0, packed_bytes, _BLOCK_BYTES):
        yield begin, elements[begin * data_type.group_items : (begin + _BLOCK_BYTES) * data_type.group_items]


def _find_word(data_type: DataType) -> np.dtype[np.unsignedinteger]:
    # The first element is in the lowest byte of its word, whatever the order of the machine.
    return np.dtype(f"<u{data_type.group_items}")


def _mask_word(data_type: DataType) -> int:
    """Returns the word in which the bits of elements are 1."""
    return int.from_bytes(bytes([(1 << data_type.bits) - 1]) * data_type.group_items)


def _list_shifts(data_type: DataType) -> list[int]:
    """Returns by how many bits a word is laid over itself, time after time.

    An element is `bits` behind its neighbour in a packed byte and 8 in a word, so that each moves by as many times
    `8 - bits` as it has neighbours in front. Shifts by one and by two places make those by three. Nothing else comes
    over an element's bits: the bits between the elements of a word are 0, and so are those beside a packed byte.
    """
    return [places * (8 - data_type.bits) for places in (1, 2)[: data_type.group_items // 2]]
