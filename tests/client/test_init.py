"""What `tensor_reshape.client` offers, and that all it answers with has its type there."""

import subprocess
import sys

import pytest

import tensor_reshape.client as sdk
from tensor_reshape.client import Dim, InferredShape, ReshapeError, ShapeQuery, infer_locally

HEAVY = "grpc", "numpy", "ml_dtypes", "google.protobuf", "asyncio"


def ask(**fields: object) -> InferredShape:
    query = ShapeQuery(data_shape=["N", 4], special_zero=True, **fields)  # type: ignore[arg-type] # fields of a test
    (answer,) = infer_locally([query])
    assert not isinstance(answer, ReshapeError)
    return answer


def run(*lines: str) -> list[str]:
    command = [sys.executable, "-c", "\n".join(lines)]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout.splitlines()


def test_the_offered_names_exist_and_no_other():
    assert [name for name in sdk.__all__ if not hasattr(sdk, name)] == []
    with pytest.raises(AttributeError, match=r"module 'tensor_reshape\.client' has no attribute 'Klient'"):
        _ = sdk.Klient  # type: ignore[attr-defined] # that is the point: a type checker finds it, too


def test_all_names_are_listed_before_they_are_imported():
    lines = "import tensor_reshape.client as sdk", "print({*sdk.__all__} <= {*dir(sdk)}, 'Client' in vars(sdk))"
    assert run(*lines) == ["True False"]


def test_a_question_is_answered_in_this_process_with_the_standard_library_alone():
    assert run(
        "import sys",
        "from tensor_reshape.client import Dim, InvalidRequestError, Reason, ShapeQuery, infer_locally",
        "queries = [ShapeQuery(data_shape=['N', 4], shape=[n, -1], special_zero=True, explain=True) for n in (0, 3)]",
        "queries.append(ShapeQuery(data_shape=[7], shape=[2, -1], special_zero=False, data_strides=[1]))",
        "print(*infer_locally(queries)[:2], infer_locally(queries)[2].reason)",
        f"print([name for name in {HEAVY} if name in sys.modules])",
        # Nor do names that are not of a client need grpc.
        "from tensor_reshape.client import HealthStatus, PackedTensor, Progress, ServerInfo, Transfer",
        "print('grpc' in sys.modules)",
    ) == ["[N, 4] [3, 4*N/3] NOT_DIVISIBLE", "[]", "False"]


def test_the_parts_of_an_answer_are_of_public_types():
    copied, inferred = ask(shape=[0, -1], explain=True).origins
    assert (type(copied), copied.kind, inferred.kind) == (sdk.Origin, sdk.Kind.COPIED, sdk.Kind.INFERRED)
    view = ask(shape=[0, 4], data_strides=[4, 1]).view
    assert view is not None
    assert (type(view), view.possibility) == (sdk.View, sdk.ViewPossibility.POSSIBLE)
    (equality,) = ask(shape=["M", 2]).equalities
    assert (type(equality), type(equality.left)) == (sdk.Equality, sdk.Expression)
    (dim,) = ask(shape=[-1])
    assert isinstance(dim, Dim)
    assert dim.expression is not None
    assert (type(dim.bounds), type(dim.expression)) == (sdk.Interval, sdk.Expression)
    assert [type(symbol) for symbol in dim.expression.factors] == [sdk.Symbol]


def test_a_refusal_is_of_public_types():
    (answer,) = infer_locally([ShapeQuery(data_shape=[6], shape=[4, -1], special_zero=False)])
    assert isinstance(answer, sdk.InvalidRequestError)
    assert answer.reason is sdk.Reason.NOT_DIVISIBLE
