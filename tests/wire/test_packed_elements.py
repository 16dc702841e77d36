"""Packing and unpacking of elements below one byte, in bounded memory."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from meters import measure_peak
from tensor_reshape.rules.dtypes import DataType, ElementKind
from tensor_reshape.wire.arrays import DTYPES
from tensor_reshape.wire.packed_elements import pack, unpack

MIB = 1 << 20
PACKED = [data_type for data_type in DTYPES if data_type.is_packed]
data_types = st.sampled_from(PACKED)


def pack_plainly(data_type: DataType, values: list[int]) -> bytes:
    """Puts each element after the previous one, beginning with the lowest bits of an integer of any size."""
    number = sum(value << (index * data_type.bits) for index, value in enumerate(values))
    return number.to_bytes(data_type.count_bytes(len(values)), "little")


def widen(data_type: DataType, value: int) -> int:
    """Returns the byte of ml_dtypes for an element with these bits."""
    negative = data_type.kind is ElementKind.SIGNED and value >> (data_type.bits - 1)
    return value | (0xFF << data_type.bits & 0xFF) if negative else value


def unpack_bytes(data_type: DataType, packed: bytes, count: int) -> bytes:
    elements = np.full(count, 0xAA, np.uint8)
    unpack(data_type, np.frombuffer(packed, np.uint8), elements)
    return elements.tobytes()


@st.composite
def values(draw: st.DrawFn) -> tuple[DataType, list[int]]:
    data_type = draw(data_types)
    return data_type, draw(st.lists(st.integers(0, 2**data_type.bits - 1), max_size=70))


@given(values(), st.integers(0, 255))
def test_packed_elements_have_no_padding_bits_between_them(sample: tuple[DataType, list[int]], noise: int):
    data_type, items = sample
    packed = bytearray(pack_plainly(data_type, items))
    elements = bytes(widen(data_type, item) for item in items)
    assert pack(data_type, np.frombuffer(elements, np.uint8)).tobytes() == packed
    # Other bits of an element in memory have no effect, and neither do unused bits after the last element.
    noisy = np.array([item | noise << data_type.bits & 0xFF for item in items], np.uint8)
    assert pack(data_type, noisy).tobytes() == packed
    used = len(items) * data_type.bits % 8
    if used:
        packed[-1] |= noise << used & 0xFF
    assert unpack_bytes(data_type, bytes(packed), len(items)) == elements


@pytest.mark.parametrize("data_type", PACKED, ids=str)
def test_packed_elements_match_ml_dtypes(data_type: DataType):
    every = bytes(range(256))
    elements = np.frombuffer(unpack_bytes(data_type, every, 256 * data_type.group_items), DTYPES[data_type])
    twin = elements.astype(np.float32).astype(DTYPES[data_type])
    np.testing.assert_array_equal(twin, elements, strict=True)
    assert pack(data_type, twin.view(np.uint8)).tobytes() == every


def test_packing_returns_whole_byte_types_unchanged():
    elements = np.arange(7, dtype=np.uint8)
    assert pack(DataType.U8, elements) is elements
    assert unpack_bytes(DataType.F32, b"abcdefgh", 8) == b"abcdefgh"


@pytest.mark.parametrize("data_type", PACKED, ids=str)
def test_packing_elements_in_chunks_equals_packing_all(data_type: DataType):
    elements = np.random.default_rng(3).integers(0, 256, 600_001, np.uint8)
    pieces = [pack(data_type, elements[begin : begin + 1000]).tobytes() for begin in range(0, elements.size, 1000)]
    packed = pack(data_type, elements)
    assert packed.tobytes() == b"".join(pieces)
    again = np.frombuffer(unpack_bytes(data_type, packed.tobytes(), elements.size), np.uint8)
    assert np.array_equal(pack(data_type, again), packed)


def test_packing_elements_allocates_only_the_result():
    elements, packed = np.zeros(32 * MIB, np.uint8), np.zeros(16 * MIB, np.uint8)
    assert measure_peak(lambda: pack(DataType.U4, elements)) < 17 * MIB
    assert measure_peak(lambda: unpack(DataType.I4, packed, elements)) < MIB
