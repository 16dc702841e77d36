"""The refusals of the shape rules: reason, field and metadata of each, and which one wins."""

import pytest

from tensor_reshape.rules.dims import check_dims
from tensor_reshape.rules.dtypes import GRAPH_FLOATS, DataType
from tensor_reshape.rules.errors import InvalidRequestError, LimitError, Reason, ReshapeError
from tensor_reshape.rules.inference import infer_shape
from tensor_reshape.rules.limits import Limits
from tensor_reshape.rules.operations import DYNAMIC_RESHAPE, OPERATIONS, RESHAPE, STATIC_RESHAPE, Operation
from tensor_reshape.rules.questions import Question

EVERY = tuple(OPERATIONS.values())
GRAPH = (STATIC_RESHAPE, DYNAMIC_RESHAPE)
MAX = 2**63 - 1

Dims = tuple[int, ...]


def refuse(operation: Operation, data: Dims, target: Dims, special_zero: bool) -> ReshapeError:
    with pytest.raises(ReshapeError) as caught:
        infer_shape(Question(operation=operation, data=data, target=target, special_zero=special_zero))
    return caught.value


# data, target, special_zero; reason, field, a part of the metadata: the same for all operations.
REFUSALS: dict[str, tuple[Dims, Dims, bool, Reason, str, dict[str, str]]] = {
    "below -1": (
        (2,), (1, -2), False,
        Reason.INVALID_TARGET_VALUE, "shape[1]", {"index": "1", "value": "-2", "shape": "[1, -2]", "data": "[2]"},
    ),
    "the lowest s64": (
        (2,), (-(2**63),), True, Reason.INVALID_TARGET_VALUE, "shape[0]", {"value": "-9223372036854775808"}
    ),
    "above 2^63 - 1": (
        (2,), (2, 2**63), False, Reason.INVALID_TARGET_VALUE, "shape[1]", {"value": "9223372036854775808"}
    ),
    "the highest u64": ((0,), (0, 2**64 - 1), False, Reason.INVALID_TARGET_VALUE, "shape[1]", {"index": "1"}),
    "a copy at the rank": (
        (2,), (0, 0), True,
        Reason.ZERO_INDEX_OUT_OF_RANGE, "shape[1]", {"index": "1", "value": "0", "rank": "1"},
    ),
    "a copy of a scalar": ((), (0,), True, Reason.ZERO_INDEX_OUT_OF_RANGE, "shape[0]", {"index": "0", "rank": "0"}),
    "a copy beyond the rank of empty data": (
        (0,), (1, 1, 0), True, Reason.ZERO_INDEX_OUT_OF_RANGE, "shape[2]", {"index": "2", "rank": "1"}
    ),
    "a second -1": (
        (4,), (-1, 2, -1), False, Reason.MULTIPLE_MINUS_ONE, "shape[2]", {"index": "2", "value": "-1", "first": "0"}
    ),
    "a literal 0 beside -1": (
        (3, 4, 5), (0, -1), False, Reason.MINUS_ONE_WITH_ZERO_VOLUME, "shape[1]", {"index": "1", "value": "-1"}
    ),
    "-1 beside a literal 0 on empty data": (
        (0, 4, 5), (-1, 0), False, Reason.MINUS_ONE_WITH_ZERO_VOLUME, "shape[0]", {"index": "0"}
    ),
    "a literal 0 beside -1 on data of (0)": (
        (0,), (0, -1), False, Reason.MINUS_ONE_WITH_ZERO_VOLUME, "shape[1]", {"index": "1"}
    ),
    "no divisor": (
        (2, 3), (4, -1), False,
        Reason.NOT_DIVISIBLE, "shape[1]", {"index": "1", "dividend": "6", "divisor": "4"},
    ),
    "no divisor of one": ((), (2, -1), True, Reason.NOT_DIVISIBLE, "shape[1]", {"dividend": "1", "divisor": "2"}),
    "no divisor by 1 beyond 64 bits": (
        (MAX, MAX), (2, -1), False, Reason.NOT_DIVISIBLE, "shape[1]", {"dividend": str(MAX * MAX), "divisor": "2"}
    ),
    "no divisor by 1 beyond double precision": (
        (2**53 + 1,), (2, -1), False, Reason.NOT_DIVISIBLE, "shape[1]", {"dividend": "9007199254740993"}
    ),
    "an inferred dim of 2^63": ((2**62, 2), (-1,), False, Reason.DIM_OVERFLOW, "shape[0]", {"dim": str(2**63)}),
    "an inferred dim that wraps to 0 in 64 bits": (
        (2**32, 2**32), (1, -1), True, Reason.DIM_OVERFLOW, "shape[1]", {"index": "1", "dim": str(2**64)}
    ),
    "other volume": (
        (2, 3), (2, 2), False,
        Reason.VOLUME_MISMATCH, "shape", {"have": "6", "want": "4", "data": "[2, 3]", "shape": "[2, 2]"},
    ),
    "other volume beside a copy": (
        (2, 3), (0, 2), True, Reason.VOLUME_MISMATCH, "shape", {"have": "6", "want": "4", "shape": "[0, 2]"}
    ),
    "a scalar of two elements": ((2,), (), False, Reason.VOLUME_MISMATCH, "shape", {"have": "2", "want": "1"}),
    "a scalar of none": ((0,), (), True, Reason.VOLUME_MISMATCH, "shape", {"have": "0", "want": "1"}),
    "empty data, full target": ((0, 3), (3,), False, Reason.VOLUME_MISMATCH, "shape", {"have": "0", "want": "3"}),
    "full data, empty target": ((3,), (3, 0), False, Reason.VOLUME_MISMATCH, "shape", {"have": "3", "want": "0"}),
    "a volume that is 0 in 64 bits": (
        (0,), (2**32, 2**32), False, Reason.VOLUME_MISMATCH, "shape", {"have": "0", "want": str(2**64)}
    ),
    "a negative dim of the data": (
        (2, -1), (-1,), False, Reason.DIM_OUT_OF_RANGE, "data.dims[1]", {"index": "1", "value": "-1"}
    ),
    "a dim of the data of 2^63": ((2**63,), (-1,), False, Reason.DIM_OUT_OF_RANGE, "data.dims[0]", {"index": "0"}),
}  # fmt: skip


@pytest.mark.parametrize("operation", EVERY, ids=lambda operation: operation.name)
@pytest.mark.parametrize(
    ("data", "target", "special_zero", "reason", "field", "metadata"), REFUSALS.values(), ids=REFUSALS.keys()
)
def test_every_operation_refuses(
    operation: Operation,
    data: Dims,
    target: Dims,
    special_zero: bool,
    reason: Reason,
    field: str,
    metadata: dict[str, str],
):
    error = refuse(operation, data, target, special_zero)
    assert isinstance(error, InvalidRequestError)
    assert (error.reason, error.field) == (reason, field)
    assert metadata.items() <= error.metadata.items()


def test_reshape_divides_what_the_copies_leave():
    error = refuse(RESHAPE, (4, 0, 2), (3, 0, -1), special_zero=True)
    assert (error.reason, error.metadata["dividend"], error.metadata["divisor"]) == (Reason.NOT_DIVISIBLE, "8", "3")


def test_reshape_cannot_infer_beside_a_copied_dim_that_overflows():
    assert refuse(RESHAPE, (0, 2**62, 2), (0, -1), special_zero=True).reason == Reason.DIM_OVERFLOW


def test_the_graph_operations_divide_the_whole_volume():
    error = refuse(STATIC_RESHAPE, (4, 3, 2), (7, 0, -1), special_zero=True)
    assert (error.metadata["dividend"], error.metadata["divisor"]) == ("24", "21")


def test_a_copy_of_0_beside_a_minus_one_is_a_product_of_0_for_the_graph_operations():
    error = refuse(DYNAMIC_RESHAPE, (4, 0, 2), (-1, 0), special_zero=True)
    assert (error.reason, error.field) == (Reason.MINUS_ONE_WITH_ZERO_VOLUME, "shape[0]")


@pytest.mark.parametrize("operation", EVERY, ids=lambda operation: operation.name)
def test_special_zero_has_no_default(operation: Operation):
    with pytest.raises(InvalidRequestError) as caught:
        infer_shape(Question(operation=operation, data=(2,), target=(2,), special_zero=None))
    assert (caught.value.reason, caught.value.field) == (Reason.SPECIAL_ZERO_MISSING, "special_zero")


@pytest.mark.parametrize("data_type", sorted(set(DataType) - GRAPH_FLOATS), ids=str)
@pytest.mark.parametrize("operation", GRAPH, ids=lambda operation: operation.name)
def test_the_graph_operations_take_three_floats(operation: Operation, data_type: DataType):
    with pytest.raises(InvalidRequestError) as caught:
        infer_shape(Question(operation=operation, data=(), target=(), special_zero=True, data_type=data_type))
    assert (caught.value.reason, caught.value.metadata) == (
        Reason.DATA_TYPE_UNSUPPORTED,
        {"data_type": str(data_type), "admitted": "f16, bf16, f32"},
    )


@pytest.mark.parametrize(
    ("operation", "data_type"),
    [(operation, data_type) for operation in EVERY for data_type in sorted(operation.data_types)],
    ids=lambda item: item.name,
)
def test_an_admitted_data_type_changes_nothing(operation: Operation, data_type: DataType):
    question = Question(operation=operation, data=(4,), target=(2, -1), special_zero=False, data_type=data_type)
    assert infer_shape(question) == (2, 2)


@pytest.mark.parametrize("operation", GRAPH, ids=lambda operation: operation.name)
@pytest.mark.parametrize(
    ("data", "target", "field"), [(13, 1, "data.dims"), (1, 13, "shape"), (13, 13, "data.dims")], ids=str
)
def test_the_graph_operations_take_rank_12(operation: Operation, data: int, target: int, field: str):
    error = refuse(operation, (1,) * data, (1,) * target, special_zero=False)
    assert (type(error), error.reason, error.field) == (InvalidRequestError, Reason.RANK_UNSUPPORTED, field)
    assert error.metadata == {"rank": "13", "limit": "12"}
    assert len(infer_shape(Question(operation=operation, data=(1,) * 12, target=(1,) * 12, special_zero=False))) == 12


@pytest.mark.parametrize(("data", "target", "field"), [(65, 1, "data.dims"), (1, 65, "shape")], ids=str)
def test_reshape_takes_rank_64_by_default(data: int, target: int, field: str):
    error = refuse(RESHAPE, (1,) * data, (1,) * target, special_zero=False)
    assert (type(error), error.reason, error.field) == (LimitError, Reason.RANK_LIMIT_EXCEEDED, field)
    assert error.metadata == {"rank": "65", "limit": "64"}
    assert len(infer_shape(Question(operation=RESHAPE, data=(1,) * 64, target=(1,) * 64, special_zero=False))) == 64


def test_a_server_may_lower_the_rank_of_reshape():
    with pytest.raises(LimitError) as caught:
        infer_shape(Question(operation=RESHAPE, data=(1,) * 3, target=(), special_zero=False), Limits(max_rank=2))
    assert caught.value.metadata == {"rank": "3", "limit": "2"}


@pytest.mark.parametrize("max_rank", [2, 64])
@pytest.mark.parametrize("operation", GRAPH, ids=lambda operation: operation.name)
def test_the_rank_of_the_graph_operations_is_no_matter_of_the_server(operation: Operation, max_rank: int):
    question = Question(operation=operation, data=(1,) * 12, target=(1,) * 12, special_zero=False)
    assert len(infer_shape(question, Limits(max_rank=max_rank))) == 12


@pytest.mark.parametrize("value", [-1, -(2**63), 2**63, 2**64], ids=str)
def test_a_dim_out_of_range_is_refused_by_its_name(value: int):
    with pytest.raises(InvalidRequestError) as caught:
        check_dims((1, value), "output.dims")
    assert (caught.value.reason, caught.value.field) == (Reason.DIM_OUT_OF_RANGE, "output.dims[1]")
    assert caught.value.metadata == {"index": "1", "value": str(value)}


# expected; field, metadata; data (2, 6), target (3, -1), which gives (3, 4)
EXPECTED: dict[str, tuple[tuple[int | None, ...], str, dict[str, str]]] = {
    "a scalar": ((), "expected_shape", {"have": "[3, 4]", "want_rank": "0"}),
    "lower rank": ((12,), "expected_shape", {"have": "[3, 4]", "want_rank": "1"}),
    "higher rank, of unknown dims": ((None, None, None), "expected_shape", {"want_rank": "3"}),
    "first dim": ((4, 4), "expected_shape.dims[0]", {"index": "0", "have": "3", "want": "4"}),
    "last dim": ((None, 5), "expected_shape.dims[1]", {"index": "1", "have": "4", "want": "5"}),
    "the first of two": ((1, 1), "expected_shape.dims[0]", {"index": "0"}),
    "-1 is a value, not an unknown dim": ((3, -1), "expected_shape.dims[1]", {"want": "-1"}),
    "0 is a value, not an unknown dim": ((0, 4), "expected_shape.dims[0]", {"want": "0"}),
}


@pytest.mark.parametrize(("expected", "field", "metadata"), EXPECTED.values(), ids=EXPECTED.keys())
@pytest.mark.parametrize("operation", EVERY, ids=lambda operation: operation.name)
def test_an_expected_shape_that_does_not_hold_is_refused(
    operation: Operation, expected: tuple[int | None, ...], field: str, metadata: dict[str, str]
):
    question = Question(operation=operation, data=(2, 6), target=(3, -1), special_zero=False, expected=expected)
    with pytest.raises(InvalidRequestError) as caught:
        infer_shape(question)
    assert (caught.value.reason, caught.value.field) == (Reason.EXPECTED_SHAPE_MISMATCH, field)
    assert metadata.items() <= caught.value.metadata.items()
