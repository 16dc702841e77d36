"""The data types match the protobuf API, the specifications, and numpy."""

import ml_dtypes
import numpy as np

from tensor_reshape.rules.dtypes import INTEGERS, DataType, ElementKind, format_data_types
from tensor_reshape.v1 import tensor_pb2

NUMPY = {
    "boolean": np.bool_,
    "i8": np.int8,
    "i16": np.int16,
    "i32": np.int32,
    "i64": np.int64,
    "u8": np.uint8,
    "u16": np.uint16,
    "u32": np.uint32,
    "u64": np.uint64,
    "f16": np.float16,
    "f32": np.float32,
    "f64": np.float64,
}
FLOATS = {
    "f8e4m3": ml_dtypes.float8_e4m3fn,
    "f8e5m2": ml_dtypes.float8_e5m2,
    "bf16": ml_dtypes.bfloat16,
    "f4e2m1": ml_dtypes.float4_e2m1fn,
    "f8e8m0": ml_dtypes.float8_e8m0fnu,
}
SMALL_INTEGERS = {"u2": ml_dtypes.uint2, "u4": ml_dtypes.uint4, "i4": ml_dtypes.int4}
NAMED = NUMPY | FLOATS | SMALL_INTEGERS
NAMELESS = {"u1", "u3", "u6", "nf4"}
BY_NAME = {str(data_type): data_type for data_type in DataType}
KINDS = {
    ElementKind.BOOLEAN: np.bool_,
    ElementKind.SIGNED: np.signedinteger,
    ElementKind.UNSIGNED: np.unsignedinteger,
    ElementKind.FLOAT: np.floating,
}


def test_data_types_match_the_protobuf_enum():
    contract = {name.removeprefix("DATA_TYPE_"): number for name, number in tensor_pb2.DataType.items()}
    del contract["UNSPECIFIED"]
    assert {data_type.name: data_type.value for data_type in DataType} == contract
    assert [DataType(number) for number in range(1, len(DataType) + 1)] == list(DataType)
    assert BY_NAME.keys() == NAMED.keys() | NAMELESS


def test_data_types_match_numpy_names_sizes_and_kinds():
    for name, kind in NAMED.items():
        data_type = BY_NAME[name]
        assert data_type.numpy_name == np.dtype(kind).name
        assert data_type.bits < 8 or data_type.count_bytes(1) == np.dtype(kind).itemsize
    for name, kind in NUMPY.items():
        assert [own for own in ElementKind if np.issubdtype(kind, KINDS[own])] == [BY_NAME[name].kind]
        assert (BY_NAME[name] in INTEGERS) == np.issubdtype(kind, np.integer)
    for name, kind in FLOATS.items():
        assert BY_NAME[name].kind is ElementKind.FLOAT
        assert ml_dtypes.finfo(kind).bits == BY_NAME[name].bits  # type: ignore[no-untyped-call]
    for name, kind in SMALL_INTEGERS.items():
        info = ml_dtypes.iinfo(kind)  # type: ignore[no-untyped-call]
        sign = "i" if BY_NAME[name].kind is ElementKind.SIGNED else "u"
        assert (info.bits, info.kind) == (BY_NAME[name].bits, sign)


def test_packed_type_group_is_the_smallest_with_whole_bytes():
    for data_type in DataType:
        assert data_type.group_items * data_type.bits == 8 * data_type.group_bytes
        assert all(items * data_type.bits % 8 for items in range(1, data_type.group_items))
        assert data_type.is_packed == (data_type.bits < 8)


def test_packed_elements_fill_the_fewest_whole_bytes():
    assert [DataType.U3.count_bytes(items) for items in range(10)] == [0, 1, 1, 2, 2, 2, 3, 3, 3, 4]
    assert [DataType.U6.count_bytes(items) for items in range(6)] == [0, 1, 2, 3, 3, 4]
    assert [DataType.U4.count_bytes(items) for items in range(4)] == [0, 1, 1, 2]
    assert DataType.U1.count_bytes(2**66 + 1) == 2**63 + 1
    assert DataType.F64.count_bytes(3) == 24


def test_format_data_types_orders_by_number():
    assert format_data_types(frozenset({DataType.F64, DataType.BOOLEAN, DataType.BF16})) == "boolean, bf16, f64"
