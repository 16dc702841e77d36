"""The arguments of queries, which are parsed before anything is sent."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

from tensor_reshape.client import (
    Client,
    Dim,
    DimLike,
    InferredShape,
    Interval,
    InvalidRequestError,
    Reason,
    ReshapeError,
    ShapeQuery,
    infer_shape_locally,
)
from tensor_reshape.client.queries import MAX_CALL_QUERIES, read_dims, split_queries
from tensor_reshape.rules.dims import ANY, AnyDim, Expression, Symbol, make_expression, name_dim
from tensor_reshape.rules.operations import RESHAPE, STATIC_RESHAPE, Operation

FOUR_C = Dim(ANY, make_expression(4, [Symbol("C")]))
# the argument, the parsed dim
READINGS: dict[str, tuple[DimLike, AnyDim]] = {
    "an int": (4, 4),
    "an int below 0": (-1, -1),
    "a product out of order": (
        Dim(ANY, Expression(2, (Symbol("M"), Symbol("C")))),
        Dim(ANY, make_expression(2, [Symbol("C"), Symbol("M")])),
    ),
    "a symbol of two bounds": (Dim(Interval(0, 8), Expression(1, (Symbol("N", Interval(2, 9)),))), name_dim("N", 2, 8)),
    "an int that s64 cannot hold": (2**64, 2**64),
    "None": (None, None),
    "bounds": ((2, 8), Dim(Interval(2, 8))),
    "bounds without an end": ((2, None), Dim(Interval(2, None))),
    "Interval": (Interval(2, 8), Dim(Interval(2, 8))),
    "a Dim": (FOUR_C, FOUR_C),
    "text, in the notation of the rules": ("4*C", FOUR_C),
    "a Symbol": (Symbol("4*C", Interval(1, 8)), name_dim("4*C", 1, 8)),
    "an Expression": (Expression(4, (Symbol("C"),)), FOUR_C),
}


def test_query_dims_are_accepted_in_every_documented_form():
    read = {name: read_dims([dim]) for name, (dim, _) in READINGS.items()}
    assert read == {name: (dim,) for name, (_, dim) in READINGS.items()}
    assert (read_dims(None), read_dims([])) == (None, ())  # an unknown rank, and a scalar


def test_numpy_integers_in_dims_become_python_ints():
    dims: list[Any] = [number(3) for number in (np.int8, np.int32, np.int64, np.uint8, np.uint64)]
    read = read_dims(dims)
    assert read == (3,) * 5
    assert {type(dim) for dim in read} == {int}
    (dim,) = read_dims([(np.int64(2), np.int64(8))]) or ()  # type: ignore[list-item] # numpy integers are also accepted
    assert isinstance(dim, Dim)
    assert [type(end) for end in dim.bounds] == [int, int]


def test_inferred_shape_can_be_used_in_a_query(client: Client):
    inferred = client.infer_shape(["N", 4, "M"], [0, -1], special_zero=True, operation="reshape")
    assert client.infer_shape(inferred, [-1], special_zero=False) == client.infer_shape(
        ["N", 4, "M"], [-1], special_zero=False
    )


@pytest.mark.parametrize(
    ("data", "target", "reason", "field"),
    [
        ([2**63], [1], Reason.DIM_OUT_OF_RANGE, "data.dims[0]"),
        ([(0, 2**63)], [1], Reason.DIM_OUT_OF_RANGE, "data.dims[0]"),
        ([1], [2**63], Reason.INVALID_TARGET_VALUE, "shape[0]"),
        ([f"{2**63}*N"], [-1], Reason.EXPRESSION_INVALID, "data.dims[0]"),
    ],
    ids=["a dim", "an end", "an item", "a coefficient"],
)
def test_numbers_above_s64_in_a_query_are_rejected(
    data: list[DimLike], target: list[DimLike], reason: Reason, field: str
):
    with Client("127.0.0.1:1") as client, pytest.raises(InvalidRequestError) as caught:
        client.infer_shape(data, target, special_zero=False)
    assert (caught.value.reason, caught.value.field) == (reason, field)


def test_large_batch_is_split_unless_queries_use_data_from():
    plain, linked = (
        ShapeQuery(**data, shape=[-1], special_zero=False) for data in ({"data_shape": [6]}, {"data_from": 0})
    )
    many = [plain] * MAX_CALL_QUERIES
    assert [len(piece) for piece in split_queries([*many, plain])] == [MAX_CALL_QUERIES, 1]
    assert [len(piece) for piece in split_queries([*many, linked])] == [MAX_CALL_QUERIES + 1]


@pytest.mark.parametrize(
    ("operation", "count", "reason"),
    [
        (STATIC_RESHAPE, 65, Reason.RANK_UNSUPPORTED),
        (RESHAPE, 65, Reason.RANK_LIMIT_EXCEEDED),
    ],
    ids=lambda value: getattr(value, "name", value),
)
def test_shape_with_too_many_dims_is_rejected_before_it_is_read(operation: Operation, count: int, reason: Reason):
    with pytest.raises(ReshapeError, match=f"^shape has {count} items; ") as caught:
        read_dims(["?"] * count, "shape", operation)
    error = caught.value
    assert (error.reason, error.field, error.metadata["rank"]) == (reason, "shape", str(count))


# data_shape, shape, other arguments
SINGLE_QUERIES: dict[str, tuple[list[DimLike] | None, list[DimLike] | None, dict[str, Any]]] = {
    "names": (["N", "C", 4], [0, -1], {}),
    "an unknown rank": (None, [3, -1], {}),
    "an expected shape": ([(2, 8), None], [-1, 4], {"expected_shape": [6, None]}),
    "a broken rule": ([2, 3], [4, -1], {"explain": True}),
    "an unexpected shape": ([2, 3], [6], {"expected_shape": [7]}),
    "an unsupported type": ([6], [6], {"data_type": "f64"}),
    "a large rank": ([1] * 13, [1], {}),
    "a large number": ([2**64], [-1], {"operation": "reshape"}),
    "a wrong operation": ([6], [6], {"operation": "transpose"}),
    "a wrong dim": (["N*"], [6], {}),
}


@pytest.mark.parametrize("name", SINGLE_QUERIES)
def test_local_query_has_the_result_or_error_of_a_client(client: Client, name: str):
    assert describe_result(infer_shape_locally, name) == describe_result(client.infer_shape, name)


def describe_result(infer: Callable[..., InferredShape], name: str) -> Mapping[str, object]:
    data, shape, options = SINGLE_QUERIES[name]
    try:
        return infer(data, shape, special_zero=True, **options).to_json()
    except ReshapeError as error:
        return {name: getattr(error, name) for name in ("__class__", "reason", "message", "field", "metadata")}
