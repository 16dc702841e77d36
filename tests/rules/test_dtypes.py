"""The data types are those of the contract, of the specifications, and of numpy."""

import ml_dtypes
import numpy as np
import pytest

from tensor_reshape.rules.dtypes import GRAPH_FLOATS, INTEGERS, DataType, format_data_types
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


@pytest.mark.parametrize("data_type", DataType, ids=str)
def test_an_item_has_the_size_that_it_has_in_numpy(data_type: DataType):
    assert data_type.item_size == np.dtype(NUMPY[str(data_type)]).itemsize


@pytest.mark.parametrize("data_type", DataType, ids=str)
def test_the_integers_are_what_numpy_calls_integers(data_type: DataType):
    assert (data_type in INTEGERS) == np.issubdtype(NUMPY[str(data_type)], np.integer)


def test_the_floats_of_the_graph_specification_are_three():
    assert {str(data_type) for data_type in GRAPH_FLOATS} == {"f16", "bf16", "f32"}


def test_data_types_are_named_in_the_order_of_the_contract():
    assert format_data_types(frozenset({DataType.F64, DataType.BOOLEAN, DataType.BF16})) == "boolean, bf16, f64"
