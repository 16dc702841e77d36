"""The differences between the operations."""

import pickle
from collections.abc import Callable
from copy import deepcopy

import pytest

from tensor_reshape.rules.dtypes import INTEGERS, DataType
from tensor_reshape.rules.errors import InvalidRequestError, ReshapeError
from tensor_reshape.rules.limits import Limits
from tensor_reshape.rules.operations import (
    DYNAMIC_RESHAPE,
    ONNX_RESHAPE,
    OPERATIONS,
    RESHAPE,
    SHAPE_OPERATIONS,
    STATIC_RESHAPE,
    Operation,
    check_data_type,
    check_rank,
    check_shape_data_type,
    find_operation,
)

Check = Callable[[Operation, DataType], DataType]
FLOATS = {DataType.F16, DataType.BF16, DataType.F32}
NAMES = {"static_reshape": STATIC_RESHAPE, "dynamic_reshape": DYNAMIC_RESHAPE, "reshape": RESHAPE}

# check, operation; the accepted types
ADMITTED: list[tuple[Check, Operation, set[DataType] | frozenset[DataType]]] = [
    (check_data_type, STATIC_RESHAPE, FLOATS),
    (check_data_type, DYNAMIC_RESHAPE, FLOATS),
    (check_data_type, RESHAPE, set(DataType)),
    (check_data_type, ONNX_RESHAPE, {one for one in DataType if str(one) not in {"u1", "u3", "u6", "nf4"}}),
    (check_shape_data_type, STATIC_RESHAPE, set()),
    (check_shape_data_type, DYNAMIC_RESHAPE, {DataType.I32}),
    (check_shape_data_type, RESHAPE, INTEGERS),
]
REJECTIONS: dict[Check, str] = {
    check_data_type: "DATA_TYPE_UNSUPPORTED data.data_type",
    check_shape_data_type: "SHAPE_DATA_TYPE_UNSUPPORTED shape.data_type",
}


def find(check: Check, operation: Operation, data_type: DataType) -> DataType | str:
    try:
        return check(operation, data_type)
    except InvalidRequestError as error:
        return f"{error.reason} {error.field} {error.metadata['data_type']}"


def test_operations_accept_only_their_supported_data_types():
    assert OPERATIONS == NAMES
    assert SHAPE_OPERATIONS == {**NAMES, "onnx_reshape": ONNX_RESHAPE}
    for check, operation, admitted in ADMITTED:
        assert {one: find(check, operation, one) for one in DataType} == {
            one: one if one in admitted else f"{REJECTIONS[check]} {one}" for one in DataType
        }, operation


def test_data_type_error_lists_supported_types_and_a_suitable_operation():
    for check in (check_data_type, check_shape_data_type):
        with pytest.raises(InvalidRequestError, match=r"; reshape takes every (integer )?type$"):
            check(DYNAMIC_RESHAPE, DataType.I64)
    with pytest.raises(InvalidRequestError, match=r"dynamic_reshape takes i32$"):
        check_shape_data_type(DYNAMIC_RESHAPE, DataType.F32)
    with pytest.raises(InvalidRequestError) as caught:
        check_data_type(STATIC_RESHAPE, DataType.F64)
    assert caught.value.metadata == {"data_type": "f64", "admitted": "f16, bf16, f32"}


def test_operation_is_found_by_every_usual_spelling():
    spellings = {
        STATIC_RESHAPE: ["static_reshape", "StaticReshape", "STATIC_RESHAPE", "OPERATION_STATIC_RESHAPE"],
        DYNAMIC_RESHAPE: ["dynamic_reshape", "DynamicReshape", "dynamic-reshape"],
        RESHAPE: ["reshape", "Reshape", "Reshape-1", "reshape-1"],
        ONNX_RESHAPE: ["onnx_reshape", "OnnxReshape", "onnx-reshape", "OPERATION_ONNX_RESHAPE"],
    }
    assert {
        operation: [name for name in names if find_operation(name) is operation]
        for operation, names in spellings.items()
    } == spellings
    assert find_operation("transpose") is None


@pytest.mark.parametrize(("operation", "most"), [(STATIC_RESHAPE, 12), (DYNAMIC_RESHAPE, 12), (RESHAPE, 5)], ids=str)
def test_largest_rank_is_accepted_and_a_larger_one_rejected(operation: Operation, most: int):
    limits = Limits(max_rank=5)
    assert check_rank(operation, most, "shape", limits) == most
    with pytest.raises(ReshapeError) as caught:
        check_rank(operation, most + 1, "shape", limits)
    assert (caught.value.field, caught.value.metadata) == ("shape", {"rank": str(most + 1), "limit": str(most)})


@pytest.mark.parametrize("operation", SHAPE_OPERATIONS.values(), ids=str)
def test_pickled_or_copied_operation_is_the_same_object(operation: Operation):
    assert pickle.loads(pickle.dumps(operation)) is operation
    assert deepcopy(operation) is operation
