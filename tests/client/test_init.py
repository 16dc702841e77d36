"""What `tensor_reshape.client` offers, and that whatever it answers with has its type there."""

import pytest

import tensor_reshape.client as sdk
from tensor_reshape.client import Dim, InferredShape, ReshapeError, ShapeQuery, infer_locally


def ask(**fields: object) -> InferredShape:
    query = ShapeQuery(data_shape=["N", 4], special_zero=True, **fields)  # type: ignore[arg-type] # fields of a test
    (answer,) = infer_locally([query])
    assert not isinstance(answer, ReshapeError)
    return answer


@pytest.mark.parametrize("name", sdk.__all__)
def test_a_name_that_is_offered_exists(name: str):
    assert hasattr(sdk, name)


def test_an_explanation_is_of_public_types():
    copied, inferred = ask(shape=[0, -1], explain=True).origins
    assert (type(copied), copied.kind, inferred.kind) == (sdk.Origin, sdk.Kind.COPIED, sdk.Kind.INFERRED)


def test_a_view_is_of_public_types():
    view = ask(shape=[0, 4], data_strides=[4, 1]).view
    assert view is not None
    assert (type(view), view.possibility) == (sdk.View, sdk.ViewPossibility.POSSIBLE)


def test_an_equality_is_of_public_types():
    (equality,) = ask(shape=["M", 2]).equalities
    assert (type(equality), type(equality.left)) == (sdk.Equality, sdk.Expression)


def test_a_dim_is_of_public_types():
    (dim,) = ask(shape=[-1])
    assert isinstance(dim, Dim)
    assert (type(dim.bounds), type(dim.expression)) == (sdk.Interval, sdk.Expression)
    assert dim.expression is not None
    assert [type(symbol) for symbol in dim.expression.factors] == [sdk.Symbol]


def test_a_refusal_is_of_public_types():
    (answer,) = infer_locally([ShapeQuery(data_shape=[6], shape=[4, -1], special_zero=False)])
    assert isinstance(answer, sdk.InvalidRequestError)
    assert answer.reason is sdk.Reason.NOT_DIVISIBLE
