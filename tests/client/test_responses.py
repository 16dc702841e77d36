"""What a caller gets of a response, and what becomes of those that are none."""

import json
from collections.abc import Sequence

import numpy as np
import pytest

from in_process import Behavior, run_stock
from tensor_reshape.client import (
    Client,
    Dim,
    InferredShape,
    Interval,
    InvalidRequestError,
    ResponseError,
    TensorReshapeError,
)
from tensor_reshape.rules.dims import ANY, AnyDim, Symbol, make_expression, name_dim
from tensor_reshape.rules.dtypes import DataType
from tensor_reshape.rules.questions import ShapeAnswer
from tensor_reshape.wire.reshapes import encode_reshape_response
from tensor_reshape.wire.tensors import TensorView

N = name_dim("N")
FOUR_C = Dim(ANY, make_expression(4, [Symbol("C")]))
MIXED = InferredShape(ShapeAnswer((N, FOUR_C, Dim(Interval(2, 8)), None, 7)))
KNOWN = InferredShape(ShapeAnswer((2, 3)))
UNRANKED = InferredShape(ShapeAnswer(None))
SIX = np.arange(6, dtype=np.float32)


def answer(raw: bytes) -> Behavior:
    return lambda request, context: raw  # noqa: ARG005 - the signature is grpc's


def infer(client: Client) -> tuple[int, ...]:
    return client.infer_shape([6], [6], special_zero=False).known


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


LIES = {
    "other dims": encode_reshape_response(TensorView(DataType.F32, (3, 2), None, memoryview(SIX.tobytes()))),
    "another data type": encode_reshape_response(TensorView(DataType.I32, (6,), None, memoryview(SIX.tobytes()))),
    "too few bytes": encode_reshape_response(TensorView(DataType.F32, (6,), None, memoryview(bytes(23)))),
    "a negative dim": bytes.fromhex("7a10 080e 120a ffffffffffffffffff01 7a00"),
    "a volume of 18000 digits": encode_reshape_response(
        TensorView(DataType.F32, (2**62,) * 1000, None, memoryview(b""))
    ),
    "nothing": b"",
    "garbage": b"\xff\xff",
}


@pytest.mark.parametrize("raw", LIES.values(), ids=LIES)
def test_an_answer_that_the_rules_do_not_give_is_a_response_error(raw: bytes):
    with (
        run_stock({"StaticReshape": answer(raw)}) as address,
        Client(address) as client,
        pytest.raises(ResponseError) as caught,
    ):
        client.static_reshape(SIX, [6], special_zero=False)
    assert not isinstance(caught.value, InvalidRequestError)


UNREADABLE_SHAPES = {
    "garbage": b"\xff",
    "a kind of dim to come": b"\x0a\x04\x0a\x02\x2a\x00",
    "no UTF-8": b"\x12\x03\x2a\x01\xff",
}


@pytest.mark.parametrize("raw", UNREADABLE_SHAPES.values(), ids=UNREADABLE_SHAPES.keys())
def test_an_inferred_shape_that_cannot_be_read_is_a_response_error(raw: bytes):
    with run_stock({"InferShape": answer(raw)}) as address, Client(address) as client, pytest.raises(ResponseError):
        infer(client)


def test_a_health_that_cannot_be_read_is_an_error_of_this_project():
    with (
        run_stock({"Check": answer(b"\xff")}, service="grpc.health.v1.Health") as address,
        Client(address) as client,
        pytest.raises(TensorReshapeError),
    ):
        client.check_health()
