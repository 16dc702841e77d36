"""What tells the three operations apart."""

from collections.abc import Callable

import pytest

from tensor_reshape.rules.dtypes import INTEGERS, DataType
from tensor_reshape.rules.errors import InvalidRequestError, Reason
from tensor_reshape.rules.limits import DEFAULT_LIMITS, Limits
from tensor_reshape.rules.operations import (
    DYNAMIC_RESHAPE,
    OPERATIONS,
    RESHAPE,
    STATIC_RESHAPE,
    Operation,
    check_data_type,
    check_rank,
    check_shape_data_type,
)

FLOATS = {DataType.F16, DataType.BF16, DataType.F32}


def test_there_are_three_operations_each_under_its_name():
    assert OPERATIONS == {"static_reshape": STATIC_RESHAPE, "dynamic_reshape": DYNAMIC_RESHAPE, "reshape": RESHAPE}


@pytest.mark.parametrize(
    ("operation", "admitted"),
    [(STATIC_RESHAPE, FLOATS), (DYNAMIC_RESHAPE, FLOATS), (RESHAPE, set(DataType))],
    ids=["static_reshape", "dynamic_reshape", "reshape"],
)
@pytest.mark.parametrize("data_type", DataType, ids=str)
def test_data_is_admitted_by_its_type(operation: Operation, admitted: set[DataType], data_type: DataType):
    if data_type in admitted:
        assert check_data_type(operation, data_type) is data_type
        return
    with pytest.raises(InvalidRequestError) as caught:
        check_data_type(operation, data_type)
    assert (caught.value.reason, caught.value.field) == (Reason.DATA_TYPE_UNSUPPORTED, "data.data_type")


@pytest.mark.parametrize(
    ("operation", "admitted"),
    [(STATIC_RESHAPE, frozenset()), (DYNAMIC_RESHAPE, frozenset({DataType.I32})), (RESHAPE, INTEGERS)],
    ids=["static_reshape", "dynamic_reshape", "reshape"],
)
@pytest.mark.parametrize("data_type", DataType, ids=str)
def test_a_shape_tensor_is_admitted_by_its_type(
    operation: Operation, admitted: frozenset[DataType], data_type: DataType
):
    if data_type in admitted:
        assert check_shape_data_type(operation, data_type) is data_type
        return
    with pytest.raises(InvalidRequestError) as caught:
        check_shape_data_type(operation, data_type)
    assert (caught.value.reason, caught.value.field) == (Reason.SHAPE_DATA_TYPE_UNSUPPORTED, "shape.data_type")
    assert caught.value.metadata["data_type"] == str(data_type)


@pytest.mark.parametrize("check", [check_data_type, check_shape_data_type])
def test_a_refused_type_names_the_operation_that_takes_it(
    check: Callable[[Operation, DataType], DataType],
):
    with pytest.raises(InvalidRequestError, match=r"; reshape takes every (integer )?type$"):
        check(DYNAMIC_RESHAPE, DataType.I64)


def test_a_type_that_no_operation_takes_names_none():
    with pytest.raises(InvalidRequestError, match=r"dynamic_reshape takes i32$"):
        check_shape_data_type(DYNAMIC_RESHAPE, DataType.F32)


@pytest.mark.parametrize(("operation", "rank"), [(STATIC_RESHAPE, 12), (DYNAMIC_RESHAPE, 12), (RESHAPE, 64)], ids=str)
def test_each_operation_has_its_largest_rank(operation: Operation, rank: int):
    assert check_rank(operation, rank, "shape", DEFAULT_LIMITS) == rank


def test_a_server_that_takes_a_rank_above_the_default_is_obeyed():
    assert check_rank(RESHAPE, 100, "shape", Limits(max_rank=100)) == 100
