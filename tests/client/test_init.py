"""What `tensor_reshape.client` offers, and that whatever it answers with has its type there."""

import subprocess
import sys

import pytest

import tensor_reshape.client as sdk
from tensor_reshape.client import Dim, InferredShape, ReshapeError, ShapeQuery, infer_locally

HEAVY = "grpc", "numpy", "ml_dtypes", "google.protobuf", "asyncio"
SECONDS = 60


def ask(**fields: object) -> InferredShape:
    query = ShapeQuery(data_shape=["N", 4], special_zero=True, **fields)  # type: ignore[arg-type] # fields of a test
    (answer,) = infer_locally([query])
    assert not isinstance(answer, ReshapeError)
    return answer


@pytest.mark.parametrize("name", sdk.__all__)
def test_a_name_that_is_offered_exists(name: str):
    assert hasattr(sdk, name)


def run(*lines: str) -> str:
    command = [sys.executable, "-c", "\n".join(lines)]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=SECONDS).stdout


def test_a_question_is_answered_in_this_process_with_the_standard_library_alone():
    output = run(
        "import sys",
        "from tensor_reshape.client import Dim, InvalidRequestError, Reason, ShapeQuery, infer_locally",
        "queries = [ShapeQuery(data_shape=['N', 4], shape=[n, -1], special_zero=True, explain=True) for n in (0, 3)]",
        "queries.append(ShapeQuery(data_shape=[7], shape=[2, -1], special_zero=False, data_strides=[1]))",
        "print(*infer_locally(queries)[:2], infer_locally(queries)[2].reason)",
        f"print([name for name in {HEAVY} if name in sys.modules])",
    )
    assert output.splitlines() == ["[N, 4] [3, 4*N/3] NOT_DIVISIBLE", "[]"]


@pytest.mark.parametrize("name", ["HealthStatus", "PackedTensor", "Progress", "ServerInfo", "Transfer"])
def test_what_is_no_client_needs_no_grpc(name: str):
    lines = f"from tensor_reshape.client import {name}", "import sys", "print('grpc' in sys.modules)"
    assert run(*lines) == "False\n"


def test_all_names_are_listed_before_anybody_has_asked_for_them():
    lines = "import tensor_reshape.client as sdk", "print({*sdk.__all__} <= {*dir(sdk)}, 'Client' in vars(sdk))"
    assert run(*lines) == "True False\n"


def test_a_name_that_is_not_offered_is_an_attribute_error():
    with pytest.raises(AttributeError, match=r"module 'tensor_reshape\.client' has no attribute 'Klient'"):
        _ = sdk.Klient  # type: ignore[attr-defined] # that is the point: a type checker finds it, too


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
