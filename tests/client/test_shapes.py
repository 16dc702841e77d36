"""An answer as callers get it: a sequence of dims."""

import json
from collections.abc import Sequence

import numpy as np
import pytest

from tensor_reshape.client import Dim, InferredShape, Interval
from tensor_reshape.rules.dims import ANY, AnyDim, Symbol, make_expression, name_dim
from tensor_reshape.rules.questions import ShapeAnswer

N = name_dim("N")
FOUR_C = Dim(ANY, make_expression(4, [Symbol("C")]))
MIXED = InferredShape(ShapeAnswer((N, FOUR_C, Dim(Interval(2, 8)), None, 7)))
KNOWN = InferredShape(ShapeAnswer((2, 3)))
UNRANKED = InferredShape(ShapeAnswer(None))


def test_a_shape_is_json_that_is_written_and_read_back():
    record = MIXED.to_json()
    assert record["shape"][0] == {"min": 0, "max": None, "name": "N"}
    assert json.loads(json.dumps(record)) == record
    assert UNRANKED.to_json() == {"shape": None}


def test_an_inferred_shape_has_the_length_of_its_rank():
    assert len(MIXED) == 5


def test_an_inferred_shape_has_its_dims_in_order():
    assert list(MIXED) == [N, FOUR_C, Dim(Interval(2, 8)), None, 7]


def test_a_dim_is_taken_by_its_index():
    assert (MIXED[0], MIXED[-1]) == (N, 7)


def test_a_slice_is_a_tuple():
    assert KNOWN[:1] == (2,)


def test_an_inferred_shape_is_a_sequence():
    assert isinstance(KNOWN, Sequence)
    assert (3 in KNOWN, KNOWN.index(3), list(reversed(KNOWN))) == (True, 1, [3, 2])


def test_an_inferred_shape_unpacks():
    rows, columns = KNOWN
    assert (rows, columns) == (2, 3)


@pytest.mark.parametrize("other", [(2, 3), [2, 3], InferredShape(ShapeAnswer((2, 3)))], ids=repr)
def test_an_inferred_shape_equals_the_same_dims(other: object):
    assert other == KNOWN


@pytest.mark.parametrize("other", [(2,), (3, 2), (2, None), "[2, 3]", None, 6, UNRANKED, MIXED], ids=repr)
def test_an_inferred_shape_equals_nothing_else(other: object):
    assert other != KNOWN


def test_a_shape_of_unknown_rank_is_no_scalars():
    assert InferredShape(ShapeAnswer(())) != UNRANKED


def test_two_shapes_of_unknown_rank_are_equal():
    assert InferredShape(ShapeAnswer(None)) == UNRANKED


@pytest.mark.parametrize("dims", [(), (2, 3), (N, None)], ids=str)
def test_the_hash_is_that_of_the_tuple(dims: tuple[AnyDim, ...]):
    assert {dims: "found"}[InferredShape(ShapeAnswer(dims))] == "found"  # type: ignore[index] # equal to its key


def test_a_shape_of_unknown_rank_has_a_hash():
    assert len({UNRANKED, InferredShape(ShapeAnswer(None))}) == 1


@pytest.mark.parametrize(
    ("shape", "text"),
    [(MIXED, "[N, 4*C, 2..8, ?, 7]"), (KNOWN, "[2, 3]"), (InferredShape(ShapeAnswer(())), "[]"), (UNRANKED, "[...]")],
    ids=str,
)
def test_a_shape_prints_as_people_write_it(shape: InferredShape, text: str):
    assert (str(shape), repr(shape)) == (text, f"InferredShape({text})")


def test_a_known_shape_is_numbers():
    assert KNOWN.known == (2, 3)


def test_numpy_takes_a_known_shape():
    assert np.zeros(KNOWN.known).shape == KNOWN


@pytest.mark.parametrize("shape", [MIXED, UNRANKED], ids=str)
def test_a_shape_that_is_not_known_gives_no_numbers(shape: InferredShape):
    with pytest.raises(ValueError, match="not fully known"):
        _ = shape.known


@pytest.mark.parametrize("use", [len, list, bool, lambda shape: shape[0]], ids=["len", "list", "bool", "index"])
def test_a_shape_of_unknown_rank_is_not_taken_for_an_empty_one(use: object):
    assert callable(use)
    with pytest.raises(ValueError, match="rank of the shape is unknown"):
        use(UNRANKED)
