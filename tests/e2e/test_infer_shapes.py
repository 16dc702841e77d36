"""Shapes of which not all is known, and batches of questions, through a server in a process of its own."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from both_clients import CLIENTS, AnyClient, open_client
from remote_refusals import catch_local
from server_processes import ServerProcess
from tensor_reshape.client import Client, DimLike, InferredShape, Interval, LimitError, Reason, ReshapeError, ShapeQuery
from tensor_reshape.rules.questions import Kind
from tensor_reshape.rules.views import ViewPossibility

FLATTEN = ShapeQuery(data_shape=[2, 3], shape=[-1], special_zero=False)
REFUSED = ShapeQuery(data_shape=[2, 3], shape=[4], special_zero=False)


@pytest.fixture(params=CLIENTS)
def any_client(server: ServerProcess, request: pytest.FixtureRequest) -> Iterator[AnyClient]:
    with open_client(request.param, server.address) as client:
        yield client


def read_reason(answer: InferredShape | ReshapeError) -> str:
    return answer.reason if isinstance(answer, ReshapeError) else ""


# data, target, what else, the answer as people write it
QUESTIONS: dict[str, tuple[list[DimLike] | None, list[DimLike] | None, dict[str, Any], str]] = {
    "an unknown dim": ([None, 4], [-1, 4], {}, "[?, 4]"),
    "an unknown dim that is copied": ([None, 4], [0, -1], {"special_zero": True}, "[1.., 4]"),
    "an unknown dim that the volume gives": ([6, 4], [None, 8], {}, "[3, 8]"),
    "an interval": ([(2, 8), 4], [-1], {}, "[8..32]"),
    "a name": (["N", 4], [0, -1], {"special_zero": True}, "[N, 4]"),
    "a product": (["N", 4], [-1], {}, "[4*N]"),
    "a quotient": (["N", 6], [-1, 4], {}, "[3*N/2, 4]"),
    "data of unknown rank": (None, [2, 3], {}, "[2, 3]"),
    "a target of unknown length": ([2, 3], None, {}, "[...]"),
    "nothing at all": (None, None, {}, "[...]"),
    "an expected dim": ([None], [-1], {"expected_shape": [7]}, "[7]"),
    "expected bounds": ([(0, 8)], [-1], {"expected_shape": [(4, 20)]}, "[4..8]"),
    "an expected rank": ([2, 3], None, {"expected_shape": [None, 2]}, "[3, 2]"),
}


@pytest.mark.parametrize(("data", "target", "more", "text"), QUESTIONS.values(), ids=QUESTIONS.keys())
def test_what_is_known_is_answered(
    any_client: AnyClient,
    data: list[DimLike] | None,
    target: list[DimLike] | None,
    more: dict[str, Any],
    text: str,
):
    assert str(any_client.infer_shape(data, target, **more)) == text


def test_the_bounds_of_a_name_travel(any_client: AnyClient):
    (dim,) = any_client.infer_shape(["N:1..8"], [-1])
    assert dim.bounds == Interval(1, 8)  # type: ignore[union-attr] # a Dim


def test_what_follows_for_the_names_is_told(any_client: AnyClient):
    (equality,) = any_client.infer_shape(["N", 4], ["M", 2]).equalities
    assert (str(equality.left), str(equality.right), equality.unless_empty) == ("2*N", "M", False)


def test_an_explained_answer_says_where_each_dim_comes_from(any_client: AnyClient):
    answer = any_client.infer_shape([2, "N", 4], [0, -1, 2], special_zero=True, explain=True)
    assert [origin.kind for origin in answer.origins] == [Kind.COPIED, Kind.INFERRED, Kind.LITERAL]


def test_an_inferred_dim_is_explained_by_its_division(any_client: AnyClient):
    answer = any_client.infer_shape(["N", 4], [-1, 2], explain=True)
    assert (answer.origins[0].dividend, answer.origins[0].divisor) == ("N*4", "2")


def test_a_copied_dim_is_explained_by_its_index(any_client: AnyClient):
    answer = any_client.infer_shape([2, "N"], [0, 0], special_zero=True, explain=True)
    assert [origin.data_index for origin in answer.origins] == [0, 1]


def test_an_answer_that_need_not_be_explained_is_not(any_client: AnyClient):
    assert any_client.infer_shape([2, 3], [6]).origins == ()


def test_an_explained_refusal_says_what_would_be_accepted(any_client: AnyClient):
    error = catch_local(lambda: any_client.infer_shape([2, 3], [4, -1], explain=True))
    assert (error.reason, error.metadata["rule"]) == (Reason.NOT_DIVISIBLE, "3")
    assert error.metadata["accepted"].startswith("other items whose product divides 6")


def test_a_refusal_that_need_not_be_explained_is_not(any_client: AnyClient):
    error = catch_local(lambda: any_client.infer_shape([2, 3], [4, -1]))
    assert not {"rule", "accepted"} & set(error.metadata)


def test_an_expected_shape_that_cannot_be_is_refused(any_client: AnyClient):
    error = catch_local(lambda: any_client.infer_shape([(2, 8)], [-1], expected_shape=[9]))
    assert (error.reason, error.field) == (Reason.EXPECTED_SHAPE_MISMATCH, "expected_shape.dims[0]")


def test_two_things_said_of_one_name_must_agree(any_client: AnyClient):
    error = catch_local(lambda: any_client.infer_shape(["N:1..3", "N:4..8"], [-1]))
    assert error.reason == Reason.SYMBOL_CONFLICT


# data, target, strides, possibility, strides of the output
VIEWS: dict[str, tuple[list[DimLike], list[DimLike], list[int], ViewPossibility, tuple[int, ...] | None]] = {
    "rows": ([2, 3], [6], [3, 1], ViewPossibility.POSSIBLE, (1,)),
    "rows with gaps": ([2, 3], [6], [4, 1], ViewPossibility.IMPOSSIBLE, None),
    "rows with gaps, split": ([2, 4], [2, 2, 2], [8, 1], ViewPossibility.POSSIBLE, (8, 2, 1)),
    "a transposition": ([3, 2], [6], [1, 3], ViewPossibility.IMPOSSIBLE, None),
    "an unknown outer dim": (["N", 3], [-1], [3, 1], ViewPossibility.POSSIBLE, (1,)),
    "an unknown inner dim": ([2, "N"], [-1], [4, 1], ViewPossibility.UNKNOWN, None),
}


@pytest.mark.parametrize(("data", "target", "strides", "possibility", "want"), VIEWS.values(), ids=VIEWS.keys())
def test_it_is_told_whether_the_output_can_be_a_view(
    any_client: AnyClient,
    data: list[DimLike],
    target: list[DimLike],
    strides: list[int],
    possibility: ViewPossibility,
    want: tuple[int, ...] | None,
):
    assert any_client.infer_shape(data, target, data_strides=strides).view == (possibility, want)


def test_a_view_is_not_spoken_of_unasked(any_client: AnyClient):
    assert any_client.infer_shape([2, 3], [6]).view is None


@pytest.mark.parametrize(
    ("strides", "reason"), [([1], Reason.STRIDES_RANK_MISMATCH), ([3, -1], Reason.STRIDE_NEGATIVE)], ids=str
)
def test_strides_that_are_none_are_refused(any_client: AnyClient, strides: list[int], reason: Reason):
    assert catch_local(lambda: any_client.infer_shape([2, 3], [6], data_strides=strides)).reason == reason


@pytest.mark.parametrize("data", [[0], [2**62, 2**62]], ids=["empty", "huge"])
def test_a_view_with_strides_beyond_s64_is_answered(any_client: AnyClient, data: list[int]):
    target = [0, 2**62, 2**62, 4] if data == [0] else [4, 2**60, 2**62]
    strides = [1] if data == [0] else [2**62, 1]
    assert any_client.infer_shape(data, target, operation="reshape", data_strides=strides).known == tuple(target)


def test_an_executed_reshape_takes_expected_bounds(any_client: AnyClient):
    output = any_client.reshape(np.arange(6), [3, -1], expected_shape=["N", (1, 4)])
    assert output.shape == (3, 2)


def test_a_batch_of_no_queries_is_answered_by_nothing(any_client: AnyClient):
    assert any_client.infer_shapes([]) == []


def test_each_query_of_a_batch_has_its_answer(any_client: AnyClient):
    queries = [ShapeQuery(data_shape=[size, 4], shape=[-1], special_zero=False) for size in range(1, 6)]
    assert any_client.infer_shapes(queries) == [(4,), (8,), (12,), (16,), (20,)]


def test_a_query_takes_the_output_of_an_earlier_one(any_client: AnyClient):
    linked = ShapeQuery(data_from=0, shape=[0, 2, -1], special_zero=True)
    first = ShapeQuery(data_shape=["N", 4, 6], shape=[0, -1], special_zero=True)
    assert list(map(str, any_client.infer_shapes([first, linked]))) == ["[N, 24]", "[N, 2, 12]"]


def test_ten_thousand_linked_queries_are_one_call(any_client: AnyClient):
    first = ShapeQuery(data_shape=["N", 24], shape=[0, 4, 6], special_zero=True)
    shapes = ([0, -1], [0, 4, 6])
    chain = [ShapeQuery(data_from=index, shape=shapes[index % 2], special_zero=True) for index in range(9999)]
    answers = any_client.infer_shapes([first, *chain], timeout=60)
    assert {str(answer) for answer in answers[1::2]} == {"[N, 24]"}
    assert {str(answer) for answer in answers[::2]} == {"[N, 4, 6]"}
    assert len(answers) == 10_000


def test_the_pieces_of_a_long_batch_are_answered_in_order(any_client: AnyClient):
    queries = [ShapeQuery(data_shape=[number, 2], shape=[-1], special_zero=False) for number in range(10_000)]
    assert any_client.infer_shapes(queries) == [(2 * number,) for number in range(10_000)]


def test_a_query_that_is_none_fails_a_long_batch_whole(any_client: AnyClient):
    queries = [FLATTEN] * 3000 + [ShapeQuery(data_shape=[2.5], shape=[-1], special_zero=False)]  # type: ignore[list-item]
    with pytest.raises(TypeError):
        any_client.infer_shapes(queries)
    assert any_client.infer_shapes([FLATTEN]) == [(6,)]


def test_a_refused_query_does_not_fail_the_others(any_client: AnyClient):
    answers = any_client.infer_shapes([FLATTEN, REFUSED, FLATTEN])
    assert list(map(read_reason, answers)) == ["", Reason.VOLUME_MISMATCH, ""]


def test_a_refused_query_says_what_a_call_of_its_own_would(any_client: AnyClient):
    (answer,) = any_client.infer_shapes([REFUSED])
    alone = catch_local(lambda: any_client.infer_shape([2, 3], [4]))
    assert isinstance(answer, ReshapeError)
    assert (type(answer), answer.message, answer.reason, answer.field, answer.metadata) == (
        type(alone),
        alone.message,
        alone.reason,
        alone.field,
        alone.metadata,
    )


def test_a_query_above_a_limit_is_a_limit_error_among_answers(any_client: AnyClient):
    long = ShapeQuery(data_shape=[1] * 65, shape=[1], special_zero=False, operation="reshape")
    first, second = any_client.infer_shapes([long, FLATTEN])
    assert isinstance(first, LimitError)
    assert first.reason == Reason.RANK_LIMIT_EXCEEDED
    assert second == (6,)


def test_what_depends_on_a_refused_query_is_refused_too(any_client: AnyClient):
    linked = [ShapeQuery(data_from=index, shape=[-1], special_zero=False) for index in (0, 1)]
    answers = any_client.infer_shapes([REFUSED, *linked, FLATTEN])
    reasons = [Reason.VOLUME_MISMATCH, Reason.LINK_FAILED, Reason.LINK_FAILED, ""]
    assert list(map(read_reason, answers)) == reasons


@pytest.mark.parametrize("link", [-1, 1, 2, 2**31 - 1])
def test_a_link_that_does_not_go_back_is_refused_alone(any_client: AnyClient, link: int):
    linked = ShapeQuery(data_from=link, shape=[-1], special_zero=False)
    assert list(map(read_reason, any_client.infer_shapes([FLATTEN, linked]))) == ["", Reason.LINK_INVALID]


def test_a_query_with_a_link_has_no_data_of_its_own(any_client: AnyClient):
    both = ShapeQuery(data_shape=[6], data_from=0, shape=[-1], special_zero=False)
    assert list(map(read_reason, any_client.infer_shapes([FLATTEN, both]))) == ["", Reason.LINK_INVALID]


def test_a_batch_runs_beside_other_calls(client: Client):
    batch = [FLATTEN] * 10_000
    with ThreadPoolExecutor(4) as threads:
        batches = [threads.submit(client.infer_shapes, batch, timeout=60) for _ in range(2)]
        single = [threads.submit(client.infer_shape, [2, 3], [-1], special_zero=False) for _ in range(200)]
        assert {call.result().known for call in single} == {(6,)}
        assert all(answer == (6,) for call in batches for answer in call.result())
