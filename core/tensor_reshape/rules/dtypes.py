"""The data types that are served, in the words of the specifications.

The table follows OpenVINO's element types of whole bytes; the numbers are those of the contract's enum `DataType`.
"""

from enum import IntEnum


class DataType(IntEnum):
    """The type of a tensor's elements. The value is the number on the wire."""

    BOOLEAN = 1
    I8 = 2
    I16 = 3
    I32 = 4
    I64 = 5
    U8 = 6
    U16 = 7
    U32 = 8
    U64 = 9
    F8E4M3 = 10
    F8E5M2 = 11
    F16 = 12
    BF16 = 13
    F32 = 14
    F64 = 15

    @property
    def item_size(self) -> int:
        """How many bytes one element takes."""
        return _ITEM_SIZES[self]

    def __str__(self) -> str:
        """The name in the specifications: `f32`, `bf16`, `boolean`."""
        return self.name.lower()


_ITEM_SIZES = {
    DataType.BOOLEAN: 1,
    DataType.I8: 1,
    DataType.I16: 2,
    DataType.I32: 4,
    DataType.I64: 8,
    DataType.U8: 1,
    DataType.U16: 2,
    DataType.U32: 4,
    DataType.U64: 8,
    DataType.F8E4M3: 1,
    DataType.F8E5M2: 1,
    DataType.F16: 2,
    DataType.BF16: 2,
    DataType.F32: 4,
    DataType.F64: 8,
}

INTEGERS = frozenset(DataType(number) for number in range(DataType.I8, DataType.U64 + 1))
"""i8 to i64 and u8 to u64: what a shape tensor of Reshape-1 may hold."""

GRAPH_FLOATS = frozenset({DataType.F32, DataType.F16, DataType.BF16})
"""What the oneDNN Graph specification admits as data."""


def format_data_types(data_types: frozenset[DataType]) -> str:
    """Names the types in the order of the contract: "f16, bf16, f32"."""
    return ", ".join(str(data_type) for data_type in sorted(data_types))
