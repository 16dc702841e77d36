"""Defines the supported data types, which have the same names as in the specifications.

The table `DataType` contains every OpenVINO element type of a fixed size. The data types have the same numbers as in
the protobuf enum `DataType`. To add a type, add a row to this table and a value to the protobuf enum. All other code
reads the properties of data types from the table.

Elements that do not fill whole bytes are packed in the same way as in OpenVINO. The figures in
`docs/concepts/element-types.md` show the bits of each packed type. In a packed tensor, the elements follow each other
without gaps, and spare bits fill the last byte. A group is the smallest number of packed elements that fills whole
bytes.
"""

from enum import Enum, IntEnum, auto
from math import lcm
from typing import Self


class ElementKind(Enum):
    """The interpretation of the bits of an element, for example as a signed integer."""

    BOOLEAN = auto()
    SIGNED = auto()
    UNSIGNED = auto()
    FLOAT = auto()


class DataType(IntEnum):
    """The type of a tensor's elements. The value of a member is the number of the type in the protobuf API.

    Attributes:
        bits: the number of bits of one element.
        kind: the interpretation of these bits, for example as a signed integer.
        numpy_name: the name in numpy, or in ml_dtypes if numpy does not have the type; empty if neither has it.
        group_items: the smallest number of elements that fills whole bytes. It is 1 unless the type is packed.
        group_bytes: the number of bytes that these elements fill.

    >>> str(DataType.BF16), DataType.BF16.bits, DataType.U4.is_packed
    ('bf16', 16, True)
    """

    bits: int
    kind: ElementKind
    numpy_name: str
    group_items: int
    group_bytes: int

    # Every member of this enum is defined with its number, its bits and its kind. The defaults are only for type
    # checkers, which treat the lookup `DataType(number)` as a call of this method.
    def __new__(cls, number: int, bits: int = 0, kind: ElementKind = ElementKind.FLOAT, numpy_name: str = "") -> Self:
        """Creates a member of the enum from a row of the table."""
        member = int.__new__(cls, number)
        member._value_ = number
        member.bits, member.kind, member.numpy_name = bits, kind, numpy_name
        group_bits = lcm(bits, 8)
        member.group_items, member.group_bytes = group_bits // bits, group_bits // 8
        return member

    BOOLEAN = 1, 8, ElementKind.BOOLEAN, "bool"
    I8 = 2, 8, ElementKind.SIGNED, "int8"
    I16 = 3, 16, ElementKind.SIGNED, "int16"
    I32 = 4, 32, ElementKind.SIGNED, "int32"
    I64 = 5, 64, ElementKind.SIGNED, "int64"
    U8 = 6, 8, ElementKind.UNSIGNED, "uint8"
    U16 = 7, 16, ElementKind.UNSIGNED, "uint16"
    U32 = 8, 32, ElementKind.UNSIGNED, "uint32"
    U64 = 9, 64, ElementKind.UNSIGNED, "uint64"
    F8E4M3 = 10, 8, ElementKind.FLOAT, "float8_e4m3fn"
    F8E5M2 = 11, 8, ElementKind.FLOAT, "float8_e5m2"
    F16 = 12, 16, ElementKind.FLOAT, "float16"
    BF16 = 13, 16, ElementKind.FLOAT, "bfloat16"
    F32 = 14, 32, ElementKind.FLOAT, "float32"
    F64 = 15, 64, ElementKind.FLOAT, "float64"
    U1 = 16, 1, ElementKind.UNSIGNED
    U2 = 17, 2, ElementKind.UNSIGNED, "uint2"
    U3 = 18, 3, ElementKind.UNSIGNED
    U4 = 19, 4, ElementKind.UNSIGNED, "uint4"
    U6 = 20, 6, ElementKind.UNSIGNED
    I4 = 21, 4, ElementKind.SIGNED, "int4"
    NF4 = 22, 4, ElementKind.FLOAT
    F4E2M1 = 23, 4, ElementKind.FLOAT, "float4_e2m1fn"
    F8E8M0 = 24, 8, ElementKind.FLOAT, "float8_e8m0fnu"

    @property
    def is_packed(self) -> bool:
        """Whether several elements share a byte."""
        return self.group_items > 1

    def count_bytes(self, items: int) -> int:
        """Returns the number of bytes that `items` contiguous elements fill, rounded up to whole bytes."""
        return -(-items * self.bits // 8)

    def __str__(self) -> str:
        """The name in the specifications: `f32`, `bf16`, `boolean`."""
        return self.name.lower()


_BY_NAME = {name: data_type for data_type in DataType for name in (str(data_type), data_type.numpy_name) if name}


def find_data_type(name: str) -> DataType | None:
    """Returns the data type that has this name in this project or in numpy, ignoring case; None if no type has it."""
    return _BY_NAME.get(name.lower())


INTEGERS = frozenset(
    data_type
    for data_type in DataType
    if data_type.kind in {ElementKind.SIGNED, ElementKind.UNSIGNED} and not data_type.is_packed
)
"""The types i8 to i64 and u8 to u64, which a shape tensor of Reshape-1 may have."""

NOT_IN_ONNX = frozenset({DataType.U1, DataType.U3, DataType.U6, DataType.NF4})
"""The types that ONNX tensors do not support."""

GRAPH_FLOATS = frozenset({DataType.F32, DataType.F16, DataType.BF16})
"""The data types of the oneDNN Graph specification. A float type that is added to `DataType` later does not belong to
this set.
"""


def format_data_types(data_types: frozenset[DataType]) -> str:
    """Returns the names of types, ordered by the numbers of the types: "f16, bf16, f32"."""
    return ", ".join(str(data_type) for data_type in sorted(data_types))
