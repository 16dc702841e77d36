"""The data types are those of the contract, of the specifications, and of numpy."""

import ml_dtypes
import numpy as np
import pytest

from tensor_reshape.rules.dtypes import GRAPH_FLOATS, INTEGERS, DataType, ElementKind, format_data_types
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
    "f8e4m3": ml_dtypes.float8_e4m3fn,
    "f8e5m2": ml_dtypes.float8_e5m2,
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "f32": np.float32,
    "f64": np.float64,
    "u2": ml_dtypes.uint2,
    "u4": ml_dtypes.uint4,
    "i4": ml_dtypes.int4,
    "f4e2m1": ml_dtypes.float4_e2m1fn,
    "f8e8m0": ml_dtypes.float8_e8m0fnu,
}
NAMELESS = {"u1", "u3", "u6", "nf4"}
NAMED_TYPES = [data_type for data_type in DataType if str(data_type) in NUMPY]


def test_the_numbers_are_those_of_the_contract():
    contract = {name.removeprefix("DATA_TYPE_"): number for name, number in tensor_pb2.DataType.items()}
    del contract["UNSPECIFIED"]
    assert {data_type.name: data_type.value for data_type in DataType} == contract


def test_the_names_are_those_of_the_specifications():
    assert {str(data_type) for data_type in DataType} == NUMPY.keys() | NAMELESS


def test_a_data_type_is_found_by_its_number():
    assert [DataType(number) for number in range(1, len(DataType) + 1)] == list(DataType)


@pytest.mark.parametrize("data_type", NAMED_TYPES, ids=str)
def test_a_data_type_has_the_name_that_it_has_in_numpy(data_type: DataType):
    assert data_type.numpy_name == np.dtype(NUMPY[str(data_type)]).name


@pytest.mark.parametrize("data_type", DataType, ids=str)
def test_a_group_of_elements_fills_whole_bytes_and_no_smaller_one_does(data_type: DataType):
    assert data_type.group_items * data_type.bits == 8 * data_type.group_bytes
    assert all(items * data_type.bits % 8 for items in range(1, data_type.group_items))


@pytest.mark.parametrize("data_type", DataType, ids=str)
def test_a_data_type_is_packed_where_its_elements_are_below_one_byte(data_type: DataType):
    assert data_type.is_packed == (data_type.bits < 8)


@pytest.mark.parametrize("data_type", [one for one in NAMED_TYPES if one.bits >= 8], ids=str)
def test_an_item_has_the_size_that_it_has_in_numpy(data_type: DataType):
    assert data_type.count_bytes(1) == np.dtype(NUMPY[str(data_type)]).itemsize


@pytest.mark.parametrize("data_type", DataType, ids=str)
def test_elements_take_the_bytes_of_whole_groups(data_type: DataType):
    sizes = [data_type.count_bytes(items) for items in range(3 * data_type.group_items + 1)]
    filled = [data_type.group_bytes] * data_type.group_items
    assert sizes == [0, *filled, *(2 * size for size in filled), *(3 * size for size in filled)]


KINDS = {
    ElementKind.BOOLEAN: np.bool_,
    ElementKind.SIGNED: np.signedinteger,
    ElementKind.UNSIGNED: np.unsignedinteger,
    ElementKind.FLOAT: np.floating,
}
# numpy itself does not know that these are floats.
FOREIGN_FLOATS = {DataType.F8E4M3, DataType.F8E5M2, DataType.BF16, DataType.F4E2M1, DataType.F8E8M0}
FOREIGN_INTEGERS = {DataType.U2, DataType.U4, DataType.I4}
NATIVE_TYPES = sorted(set(NAMED_TYPES) - FOREIGN_FLOATS - FOREIGN_INTEGERS)


@pytest.mark.parametrize("data_type", NATIVE_TYPES, ids=str)
@pytest.mark.parametrize("kind", ElementKind, ids=lambda kind: kind.name)
def test_a_data_type_is_of_the_kind_that_it_has_in_numpy(data_type: DataType, kind: ElementKind):
    assert (data_type.kind is kind) == np.issubdtype(NUMPY[str(data_type)], KINDS[kind])


@pytest.mark.parametrize("data_type", sorted(FOREIGN_FLOATS), ids=str)
def test_a_type_of_ml_dtypes_is_a_float(data_type: DataType):
    assert data_type.kind is ElementKind.FLOAT
    assert ml_dtypes.finfo(NUMPY[str(data_type)]).bits == data_type.bits  # type: ignore[no-untyped-call]


@pytest.mark.parametrize("data_type", sorted(FOREIGN_INTEGERS), ids=str)
def test_an_integer_of_ml_dtypes_has_the_bits_and_the_sign_that_it_has_there(data_type: DataType):
    info = ml_dtypes.iinfo(NUMPY[str(data_type)])  # type: ignore[no-untyped-call]
    assert (info.bits, info.kind) == (data_type.bits, "i" if data_type.kind is ElementKind.SIGNED else "u")


@pytest.mark.parametrize("data_type", NATIVE_TYPES, ids=str)
def test_every_integer_of_numpy_is_one_of_the_integers(data_type: DataType):
    assert (data_type in INTEGERS) == np.issubdtype(NUMPY[str(data_type)], np.integer)


def test_the_integers_are_eight():
    signed, unsigned = {DataType.I8, DataType.I16, DataType.I32, DataType.I64}, {DataType.U8, DataType.U16}
    assert signed | unsigned | {DataType.U32, DataType.U64} == INTEGERS


def test_the_floats_of_the_graph_specification_are_three():
    assert {str(data_type) for data_type in GRAPH_FLOATS} == {"f16", "bf16", "f32"}


def test_data_types_are_named_in_the_order_of_the_contract():
    assert format_data_types(frozenset({DataType.F64, DataType.BOOLEAN, DataType.BF16})) == "boolean, bf16, f64"
