"""Rule 1: the data type, special_zero, the ranks and the dims are admitted."""

import pytest

from tensor_reshape.rules.dims import AnyDim
from tensor_reshape.rules.dtypes import GRAPH_FLOATS, DataType
from tensor_reshape.rules.errors import InvalidRequestError, LimitError, Reason
from tensor_reshape.rules.inference import infer, infer_shape
from tensor_reshape.rules.limits import Limits
from tensor_reshape.rules.operations import DYNAMIC_RESHAPE, OPERATIONS, RESHAPE, STATIC_RESHAPE, Operation
from tensor_reshape.rules.questions import Question
from written_questions import (
    KnownRefusal,
    PartialRefusal,
    check_known_refusal,
    check_partial_refusal,
    read_shape,
    refuse_known,
)

EVERY = tuple(OPERATIONS.values())
GRAPH = (STATIC_RESHAPE, DYNAMIC_RESHAPE)


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
    error = refuse_known(operation, (1,) * data, (1,) * target, special_zero=False)
    assert (type(error), error.reason, error.field) == (InvalidRequestError, Reason.RANK_UNSUPPORTED, field)
    assert error.metadata == {"rank": "13", "limit": "12"}
    assert len(infer_shape(Question(operation=operation, data=(1,) * 12, target=(1,) * 12, special_zero=False))) == 12


@pytest.mark.parametrize(("data", "target", "field"), [(65, 1, "data.dims"), (1, 65, "shape")], ids=str)
def test_reshape_takes_rank_64_by_default(data: int, target: int, field: str):
    error = refuse_known(RESHAPE, (1,) * data, (1,) * target, special_zero=False)
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


# data, target, special_zero; reason, field, a part of the metadata: the same for all operations
REFUSALS: dict[str, KnownRefusal] = {
    'a negative dim of the data': (
        (2, -1), (-1,), False, Reason.DIM_OUT_OF_RANGE, "data.dims[1]", {"index": "1", "value": "-1"}
    ),
    'a dim of the data of 2^63': ((2**63,), (-1,), False, Reason.DIM_OUT_OF_RANGE, "data.dims[0]", {"index": "0"}),
}  # fmt: skip


@pytest.mark.parametrize("operation", EVERY, ids=lambda operation: operation.name)
@pytest.mark.parametrize("row", REFUSALS.values(), ids=REFUSALS.keys())
def test_a_dim_of_the_data_is_refused(operation: Operation, row: KnownRefusal):
    check_known_refusal(operation, row)


# data, target, special_zero, expected; reason, field
PARTIAL_REFUSALS: dict[str, PartialRefusal] = {
    "a symbol of two sizes": ("N:1..2", "N:3..4", False, None, Reason.SYMBOL_CONFLICT, "shape[0]"),
    "an empty interval": ("4..3", "-1", False, None, Reason.INTERVAL_EMPTY, "data.dims[0]"),
    "an empty length": ("?", "4..3", False, None, Reason.INTERVAL_EMPTY, "shape[0]"),
    "an empty expected dim": ("?", "?", False, "4..3", Reason.INTERVAL_EMPTY, "expected_shape.dims[0]"),
    "an end of 2^63": (f"2..{2**63}", "-1", False, None, Reason.DIM_OUT_OF_RANGE, "data.dims[0]"),
    "such an end of a symbol": (f"N:2..{2**63} 4", "0 -1", True, None, Reason.DIM_OUT_OF_RANGE, "data.dims[0]"),
    "such an end of a length": ("8", f"2..{2**63}", True, None, Reason.DIM_OUT_OF_RANGE, "shape[0]"),
    "an expression that no s64 holds": (f"N:4.. {2**62}*N", "0 0", True, None, Reason.DIM_OUT_OF_RANGE, "data.dims[1]"),
    "such an expression under nothing": (f"N:4.. {2**62}*N", None, True, None, Reason.DIM_OUT_OF_RANGE, "data.dims[1]"),
    "such an expression of no elements": (
        f"0 {2**62}*N N:4..",
        "0",
        True,
        None,
        Reason.DIM_OUT_OF_RANGE,
        "data.dims[1]",
    ),
    "such a length": ("?", f"{2**62}*N/2 N:4..", True, None, Reason.DIM_OUT_OF_RANGE, "shape[0]"),
    "names made too large elsewhere": (
        "N*M",
        f"N:{2**32}.. M:{2**32}..",
        True,
        None,
        Reason.DIM_OUT_OF_RANGE,
        "data.dims[0]",
    ),
    "an expression outside its bounds": (
        "N*M:10.. N:0..2 M:0..2",
        "?",
        True,
        None,
        Reason.SYMBOL_CONFLICT,
        "data.dims[0]",
    ),
    "a divisor of 0": ("N:0..0 6/N", "?", True, None, Reason.SYMBOL_CONFLICT, "data.dims[1]"),
}


@pytest.mark.parametrize("row", PARTIAL_REFUSALS.values(), ids=PARTIAL_REFUSALS.keys())
def test_what_is_known_in_part_and_contradicts_itself_is_refused(row: PartialRefusal):
    check_partial_refusal(row)


def test_special_zero_is_required():
    with pytest.raises(InvalidRequestError) as caught:
        infer(Question(operation=RESHAPE, data=None, target=None, special_zero=None))
    assert caught.value.reason == Reason.SPECIAL_ZERO_MISSING


def test_the_data_type_is_checked():
    question = Question(operation=STATIC_RESHAPE, data=None, target=None, special_zero=True, data_type=DataType.I32)
    with pytest.raises(InvalidRequestError) as caught:
        infer(question)
    assert caught.value.reason == Reason.DATA_TYPE_UNSUPPORTED


@pytest.mark.parametrize(("data", "target"), [([None] * 65, [-1]), (None, [None] * 65)], ids=["data", "target"])
def test_a_rank_above_the_limit_is_refused(data: list[AnyDim] | None, target: list[AnyDim]):
    with pytest.raises(LimitError) as caught:
        infer(Question(operation=RESHAPE, data=data, target=target, special_zero=True))
    assert caught.value.reason == Reason.RANK_LIMIT_EXCEEDED


# data, target, output
HUGE: dict[str, tuple[str, str, str]] = {
    "an expression that may be 0": (f"{2**62}*N", "0", f"{2**62}*N"),
    "one that must be 0 or 1": (f"{2**62}*N 2", "0 2", f"{2**62}*N 2"),
    "a divisor that is large enough": (f"{2**62}*N/M M:8.. N:4..8", "0 0 0", f"{2**62}*N/M M:8.. N:4..8"),
}


@pytest.mark.parametrize(("data", "target", "output"), HUGE.values(), ids=HUGE.keys())
def test_a_huge_expression_that_may_be_a_dim_is_answered(data: str, target: str, output: str):
    dims = infer(Question(RESHAPE, read_shape(data), read_shape(target), special_zero=True)).dims
    assert [str(dim) for dim in dims or ()] == [str(dim) for dim in read_shape(output) or ()]
