"""An inferred shape: a sequence of dims."""

import json
import pickle
from collections.abc import Callable, Sequence
from xml.etree.ElementTree import fromstring

import numpy as np
import pytest

from both_clients import open_client
from server_processes import ServerProcess
from tensor_reshape.client import Client, Dim, InferredShape, Interval, ShapeQuery, infer_locally
from tensor_reshape.rules.dims import ANY, AnyDim, Symbol, make_expression, name_dim
from tensor_reshape.rules.questions import ShapeAnswer

N = name_dim("N")
FOUR_C = Dim(ANY, make_expression(4, [Symbol("C")]))
MIXED = InferredShape(ShapeAnswer((N, FOUR_C, Dim(Interval(2, 8)), None, 7)))
KNOWN = InferredShape(ShapeAnswer((2, 3)))
SCALAR = InferredShape(ShapeAnswer(()))
UNRANKED = InferredShape(ShapeAnswer(None))


def test_inferred_shape_to_json_returns_json_serializable_values():
    record = MIXED.to_json()
    assert record["shape"] == {
        "dims": [-1, -1, -1, -1, 7],
        "partial": [
            {"index": 0, "symbol": {"name": "N"}},
            {"index": 1, "expression": {"coefficient": 4, "factors": [{"name": "C"}]}},
            {"index": 2, "interval": {"min": 2, "max": 8}},
        ],
    }
    assert json.loads(json.dumps(record)) == record
    assert (SCALAR.to_json()["shape"], "shape" in UNRANKED.to_json()) == ({}, False)


def test_inferred_shape_behaves_like_a_sequence():
    assert isinstance(KNOWN, Sequence)
    assert (len(MIXED), list(MIXED)) == (5, [N, FOUR_C, Dim(Interval(2, 8)), None, 7])
    assert (MIXED[0], MIXED[-1], KNOWN[:1]) == (N, 7, (2,))
    assert (3 in KNOWN, KNOWN.index(3), list(reversed(KNOWN))) == (True, 1, [3, 2])
    rows, columns = KNOWN
    assert (rows, columns) == (2, 3)


def test_inferred_shape_equals_only_equal_dims():
    assert all(other == KNOWN for other in ((2, 3), [2, 3], InferredShape(ShapeAnswer((2, 3)))))
    others: list[object] = [(2,), (3, 2), (2, None), "[2, 3]", None, 6, UNRANKED, MIXED]
    assert [other for other in others if other == KNOWN] == []
    assert SCALAR != UNRANKED
    assert InferredShape(ShapeAnswer(None)) == UNRANKED


@pytest.mark.parametrize("dims", [(), (2, 3), (N, None)], ids=str)
def test_inferred_shape_has_the_hash_of_its_tuple(dims: tuple[AnyDim, ...]):
    assert {dims: "found"}[InferredShape(ShapeAnswer(dims))] == "found"  # type: ignore[index] # the shape is equal to the key
    assert len({UNRANKED, InferredShape(ShapeAnswer(None))}) == 1


def test_inferred_shape_is_printed_as_bracketed_dims():
    shapes = MIXED, KNOWN, SCALAR, UNRANKED
    texts = ["[N, 4*C, 2..8, ?, 7]", "[2, 3]", "[]", "[...]"]
    assert [str(shape) for shape in shapes] == texts
    assert [repr(shape) for shape in shapes] == [f"InferredShape({text})" for text in texts]


def test_known_attribute_of_a_partial_inferred_shape_raises_value_error():
    assert KNOWN.known == np.zeros(KNOWN.known).shape == (2, 3)
    for shape in (MIXED, UNRANKED):
        with pytest.raises(ValueError, match="not fully known"):
            _ = shape.known


@pytest.mark.parametrize("use", [len, list, bool, lambda shape: shape[0]], ids=["len", "list", "bool", "index"])
def test_inferred_shape_of_unknown_rank_raises_if_used_as_sequence(use: Callable[[InferredShape], object]):
    with pytest.raises(ValueError, match="rank of the shape is unknown"):
        use(UNRANKED)


IMAGES = ShapeQuery(data_shape=["batch:1..8", None, "h", 6], shape=["rows", 4, -1], special_zero=False)
# values, violated conditions
SIZES: list[tuple[dict[str, int], list[str]]] = [
    ({"batch": 2, "data[1]": 3, "h": 2, "rows": 3}, []),
    ({"batch": 2, "data[1]": 3, "h": 2, "rows": 5}, ["2*rows divides 3*batch*data[1]*h"]),
    ({"rows": 0, "h": 2}, ["rows >= 1"]),
    ({"batch": 2, "h": 2}, []),
    ({}, []),
]


def test_violated_conditions_are_found(client: Client):
    (local,) = infer_locally([IMAGES])
    (served,) = client.infer_shapes([IMAGES])
    alone = client.infer_shape(IMAGES.data_shape, IMAGES.shape, special_zero=False)
    for shape in (local, served, alone):
        assert isinstance(shape, InferredShape)
        assert shape.conditions_complete
        found = [[str(condition) for condition in shape.find_violations(values)] for values, _ in SIZES]
        assert found == [violated for _, violated in SIZES]


def test_values_of_other_dims_are_rejected():
    (shape,) = infer_locally([IMAGES])
    assert isinstance(shape, InferredShape)
    for values, message in (
        ({"width": 2}, r"no dimension 'width'; it has batch, h, rows, data\[1\]$"),
        ({"batch": 9}, r"^batch is 9; the query declares 1\.\.8$"),
        ({"h": -1}, r"^h is -1; the query declares 0\.\.$"),
    ):
        with pytest.raises(ValueError, match=message):
            shape.find_violations(values)


def test_linked_query_has_the_dims_of_its_data():
    linked = ShapeQuery(data_from=0, shape=[5, -1], special_zero=False)
    _, shape = infer_locally([ShapeQuery(data_shape=["N", 2], shape=[-1], special_zero=False), linked])
    assert isinstance(shape, InferredShape)
    assert [str(condition) for condition in shape.find_violations({"N": 4})] == ["5 divides N"]


def read_title(result: object) -> str | None:
    """Returns the title of the drawing that a notebook shows for a result."""
    drawing = result._repr_svg_()  # type: ignore[attr-defined] # of shapes and rejections
    return fromstring(drawing).findtext("{http://www.w3.org/2000/svg}title")


def test_shape_of_each_call_draws_its_query(kind: str, server: ServerProcess):
    query = ShapeQuery(data_shape=["N", 3, 4], shape=[0, -1], special_zero=True)
    with open_client(kind, server.address) as client:
        alone = [client.infer_shape(["N", 3, 4], [0, -1], special_zero=True) for _ in range(3)]  # also from the cache
        shapes = [*alone, *client.infer_shapes([query]), *infer_locally([query])]
    assert {read_title(shape) for shape in shapes} == {
        "static_reshape of [N, 3, 4] to [0, -1] with special_zero: [N, 12]"
    }


def test_shape_of_a_linked_query_draws_the_earlier_output_as_its_input(client: Client):
    queries = [
        ShapeQuery(data_shape=["N", 2], shape=[-1], special_zero=False),
        ShapeQuery(data_from=0, shape=[2, -1], special_zero=False),
    ]
    for results in (client.infer_shapes(queries), infer_locally(queries)):
        assert read_title(results[1]) == "static_reshape of [2*N] to [2, -1]: [2, N]"


def test_shape_is_drawn_the_same_with_and_without_explain():
    plain, explained = infer_locally(
        ShapeQuery(data_shape=["N", "S", 768], shape=[0, 0, 12, 64], special_zero=True, explain=explain)
        for explain in (False, True)
    )
    assert isinstance(plain, InferredShape)
    assert isinstance(explained, InferredShape)
    assert (plain.origins, plain.groups) == ((), ())
    assert plain.to_svg() == explained.to_svg()


def test_pickled_shape_keeps_its_drawing():
    (shape,) = infer_locally([IMAGES])
    assert isinstance(shape, InferredShape)
    twin = pickle.loads(pickle.dumps(shape))
    assert (twin, twin.to_json(), twin.to_svg()) == (shape, shape.to_json(), shape.to_svg())


def test_shape_without_a_query_is_not_drawn():
    assert KNOWN._repr_svg_() is None
