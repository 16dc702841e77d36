"""Packs and unpacks elements that are smaller than a byte.

Arrays of ml_dtypes have one element per byte, but messages have several elements per byte.

- All packed types of ml_dtypes have 2 or 4 elements in a byte, with the first element in the lowest bits. No element is
  split between two bytes, so any chunk of a tensor can be packed or unpacked separately. The other packed types of
  OpenVINO have no numpy type and are never unpacked.
- Spare bits of the last byte are written as 0 and ignored by readers.
- The elements of one packed byte are processed together, as one integer. Arrays are processed in blocks, so the
  additional memory does not depend on the size of the array.
"""

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from tensor_reshape.rules.dtypes import DataType, ElementKind

Bytes = npt.NDArray[np.uint8]

_BLOCK_BYTES = 65536
"""The number of packed bytes in a block. The words of one block fit into the processor's cache."""


def pack(data_type: DataType, elements: Bytes) -> Bytes:
    """Returns the packed bytes of the array `elements`, which has one element per byte.

    If the type is not packed, the bytes of the array are returned unchanged.
    """
    if not data_type.is_packed:
        return elements
    packed = np.empty(data_type.count_bytes(elements.size), np.uint8)
    for begin, chosen in _cut(data_type, elements, packed.size):
        # the last byte has space for this many further elements, which are not part of the tensor
        missing = -chosen.size % data_type.group_items
        whole = np.append(chosen, np.zeros(missing, np.uint8)) if missing else chosen
        # The mask removes the sign bits that ml_dtypes adds.
        words = whole.view(_find_word(data_type)) & _mask_word(data_type)
        for shift in _list_shifts(data_type):
            words |= words >> shift
        packed[begin : begin + _BLOCK_BYTES] = words.astype(np.uint8)  # only the lowest byte of each word is kept
    return packed


def unpack(data_type: DataType, packed: Bytes, elements: Bytes) -> None:
    """Unpacks elements from `packed` into `elements`, until `elements` is full.

    If the type is not packed, the bytes are copied unchanged.
    """
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
            # The sign bit is extended to the whole byte: with 4 bits, 0b1110 becomes 0b11111110.
            sign = np.uint8(1 << (data_type.bits - 1))
            found ^= sign
            found -= sign
        chosen[:] = found[: chosen.size]


def _cut(data_type: DataType, elements: Bytes, packed_bytes: int) -> Iterator[tuple[int, Bytes]]:
    """Yields the position of each block in the packed bytes, and the elements of the block."""
    for begin in range(0, packed_bytes, _BLOCK_BYTES):
        yield begin, elements[begin * data_type.group_items : (begin + _BLOCK_BYTES) * data_type.group_items]


def _find_word(data_type: DataType) -> np.dtype[np.unsignedinteger]:
    # The first packed element must be in the lowest byte of its word, even on big-endian machines.
    return np.dtype(f"<u{data_type.group_items}")


def _mask_word(data_type: DataType) -> int:
    """Returns a word with a 1 in each bit that belongs to an element."""
    return int.from_bytes(bytes([(1 << data_type.bits) - 1]) * data_type.group_items)


def _list_shifts(data_type: DataType) -> list[int]:
    """Returns the two shifts, or the one shift, that pack or unpack the elements of a word.

    The distance between neighbouring elements is `bits` in a packed byte and 8 bits in a word. To pack or unpack a
    word, the element at index i therefore moves by i steps of `8 - bits` bits. A shift by one step and a shift by two
    steps together move an element by three steps. All bits of the word that do not belong to elements are 0, so the
    shifted copies do not overlap.
    """
    return [places * (8 - data_type.bits) for places in (1, 2)[: data_type.group_items // 2]]
