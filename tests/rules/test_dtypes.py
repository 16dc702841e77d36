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
}


def test_the_numbers_are_those_of_the_contract():
    contract = {name.removeprefix("DATA_TYPE_"): number for name, number in tensor_pb2.DataType.items()}
    del contract["UNSPECIFIED"]
    assert {data_type.name: data_type.value for data_type in DataType} == contract


def test_the_names_are_those_of_the_specifications():
    assert {str(data_type) for data_type in DataType} == NUMPY.keys()


def test_a_data_type_is_found_by_its_number():
    assert [DataType(number) for number in range(1, len(DataType) + 1)] == list(DataType)


@pytest.mark.parametrize("data_type", DataType, ids=str)
def test_a_data_type_has_the_name_that_it_has_in_numpy(data_type: DataType):
    assert data_type.numpy_name == np.dtype(NUMPY[str(data_type)]).name


@pytest.mark.parametrize("data_type", DataType, ids=str)
def test_a_data_type_fills_whole_bytes(data_type: DataType):
    assert data_type.bits == 8 * data_type.item_size


@pytest.mark.parametrize("data_type", DataType, ids=str)
def test_an_item_has_the_size_that_it_has_in_numpy(data_type: DataType):
    assert data_type.item_size == np.dtype(NUMPY[str(data_type)]).itemsize


KINDS = {
    ElementKind.BOOLEAN: np.bool_,
    ElementKind.SIGNED: np.signedinteger,
    ElementKind.UNSIGNED: np.unsignedinteger,
    ElementKind.FLOAT: np.floating,
}
# numpy itself does not know that these are floats.
FOREIGN_FLOATS = {DataType.F8E4M3, DataType.F8E5M2, DataType.BF16}


@pytest.mark.parametrize("data_type", sorted(set(DataType) - FOREIGN_FLOATS), ids=str)
@pytest.mark.parametrize("kind", ElementKind, ids=lambda kind: kind.name)
def test_a_data_type_is_of_the_kind_that_it_has_in_numpy(data_type: DataType, kind: ElementKind):
    assert (data_type.kind is kind) == np.issubdtype(NUMPY[str(data_type)], KINDS[kind])


@pytest.mark.parametrize("data_type", sorted(FOREIGN_FLOATS), ids=str)
def test_a_type_of_ml_dtypes_is_a_float(data_type: DataType):
    assert data_type.kind is ElementKind.FLOAT
    assert ml_dtypes.finfo(NUMPY[str(data_type)]).bits == data_type.bits  # type: ignore[no-untyped-call]


@pytest.mark.parametrize("data_type", DataType, ids=str)
def test_every_integer_of_the_table_is_one_of_the_integers(data_type: DataType):
    assert (data_type in INTEGERS) == np.issubdtype(NUMPY[str(data_type)], np.integer)


def test_the_integers_are_eight():
    signed, unsigned = {DataType.I8, DataType.I16, DataType.I32, DataType.I64}, {DataType.U8, DataType.U16}
    assert signed | unsigned | {DataType.U32, DataType.U64} == INTEGERS


def test_the_floats_of_the_graph_specification_are_three():
    assert {str(data_type) for data_type in GRAPH_FLOATS} == {"f16", "bf16", "f32"}


def test_data_types_are_named_in_the_order_of_the_contract():
    assert format_data_types(frozenset({DataType.F64, DataType.BOOLEAN, DataType.BF16})) == "boolean, bf16, f64"
