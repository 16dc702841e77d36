"""Elements below one byte: packed as they travel, and one a byte as ml_dtypes has them in memory.

Laws:

- What is packed here has 1, 2 or 4 elements a byte, the first one in the lowest bits: so every border of bytes is one
  of elements, and any piece of a tensor can be packed or unpacked by itself. Of the packed types all that ml_dtypes has
  are so; the others of OpenVINO have no form in memory, and are never unpacked.
- Spare bits of the last byte are written as 0 and not read.
- To pack takes twice the memory of the packed bytes, to unpack none besides the elements.
"""

import numpy as np
import numpy.typing as npt

from tensor_reshape.rules.dtypes import DataType, ElementKind

Bytes = npt.NDArray[np.uint8]


def pack(data_type: DataType, elements: Bytes) -> Bytes:
    """Returns `elements`, one a byte and in any number, as the bytes that travel: themselves, of an unpacked type."""
    if not data_type.is_packed:
        return elements
    packed = np.zeros(data_type.count_bytes(elements.size), np.uint8)
    scratch = np.empty_like(packed)
    mask = np.uint8((1 << data_type.bits) - 1)  # ml_dtypes extends the sign over the whole byte
    for place in range(data_type.group_items):
        # The last byte may lack some: there are fewer elements at this place, then, than bytes.
        chosen = elements[place :: data_type.group_items]
        shifted = np.bitwise_and(chosen, mask, out=scratch[: chosen.size])
        shifted <<= np.uint8(place * data_type.bits)
        packed[: chosen.size] |= shifted
    return packed


def unpack(data_type: DataType, packed: Bytes, elements: Bytes) -> None:
    """Writes the elements that have travelled as `packed` to `elements`, as many as that holds."""
    if not data_type.is_packed:
        elements[:] = packed
        return
    for place in range(data_type.group_items):
        chosen = elements[place :: data_type.group_items]
        np.right_shift(packed[: chosen.size], np.uint8(place * data_type.bits), out=chosen)
    elements &= np.uint8((1 << data_type.bits) - 1)
    if data_type.kind is ElementKind.SIGNED:
        # The highest bit of an element becomes all that are above it: with 4 bits, 0b1110 is 0b11111110.
        sign = np.uint8(1 << (data_type.bits - 1))
        elements ^= sign
        elements -= sign
