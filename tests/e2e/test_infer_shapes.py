"""Shapes that are known in part, and batches of queries, through a server in a process of its own."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
import numpy as np
import pytest

from both_clients import CLIENTS, AnyClient, open_client
from remote_refusals import catch_local, catch_remote, describe, send_raw
from server_processes import ServerProcess
from tensor_reshape.client import (
    Client,
    DimLike,
    InferredShape,
    Interval,
    InvalidRequestError,
    LimitError,
    Reason,
    ReshapeError,
    ShapeQuery,
)
from tensor_reshape.rules.questions import Kind
from tensor_reshape.rules.views import ViewPossibility
from tensor_reshape.v1 import reshape_pb2

FLATTEN = ShapeQuery(data_shape=[2, 3], shape=[-1], special_zero=False)
REFUSED = ShapeQuery(data_shape=[2, 3], shape=[4], special_zero=False)


@pytest.fixture(params=CLIENTS)
def any_client(server: ServerProcess, request: pytest.FixtureRequest) -> Iterator[AnyClient]:
    with open_client(request.param, server.address) as client:
        yield client


def read_reasons(answers: list[InferredShape | ReshapeError]) -> list[str]:
    return [answer.reason if isinstance(answer, ReshapeError) else "" for answer in answers]


# data, target, other arguments, the answer as people write it
QUERIES: list[tuple[list[DimLike] | None, list[DimLike] | None, dict[str, Any], str]] = [
    ([None, 4], [0, -1], {"special_zero": True}, "[1.., 4]"),
    ([6, 4], [None, 8], {}, "[3, 8]"),
    ([(2, 8), 4], [-1], {}, "[8..32]"),
    (["N", 4], [0, -1], {"special_zero": True}, "[N, 4]"),
    (["N", 6], [-1, 4], {}, "[3*N/2, 4]"),
    (None, [2, 3], {}, "[2, 3]"),
    (None, None, {}, "[...]"),
    ([(0, 8)], [-1], {"expected_shape": [(4, 20)]}, "[4..8]"),
    ([2, 3], None, {"expected_shape": [None, 2]}, "[3, 2]"),
    ([0], [0, 2**62, 2**62, 4], {"operation": "reshape", "data_strides": [1]}, f"[0, {2**62}, {2**62}, 4]"),
    ([2**62] * 2, [4, 2**60, 2**62], {"operation": "reshape", "data_strides": [2**62, 1]}, f"[4, {2**60}, {2**62}]"),
]


def test_the_known_part_of_a_shape_is_answered(any_client: AnyClient):
    answers = [str(any_client.infer_shape(data, target, **more)) for data, target, more, _ in QUERIES]
    assert answers == [text for *_, text in QUERIES]


def test_bounds_and_equalities_of_names_travel(any_client: AnyClient):
    (dim,) = any_client.infer_shape(["N:1..8"], [-1])
    assert dim.bounds == Interval(1, 8)  # type: ignore[union-attr] # a Dim
    (equality,) = any_client.infer_shape(["N", 4], ["M", 2]).equalities
    assert (str(equality.left), str(equality.right), equality.unless_empty) == ("2*N", "M", False)
    error = catch_local(lambda: any_client.infer_shape(["N:1..3", "N:4..8"], [-1]))
    assert error.reason == Reason.SYMBOL_CONFLICT


def test_an_answer_is_explained_if_it_is_asked_for(any_client: AnyClient):
    copied, inferred, literal = any_client.infer_shape([2, "N", 4], [0, -1, 2], special_zero=True, explain=True).origins
    assert [copied.kind, inferred.kind, literal.kind] == [Kind.COPIED, Kind.INFERRED, Kind.LITERAL]
    assert (copied.data_index, inferred.dividend, inferred.divisor) == (0, "N*8", "4")
    answer = any_client.infer_shape([2, 3], [6])
    assert (answer.origins, answer.view) == ((), None)


def test_a_refusal_is_explained_if_it_is_asked_for(any_client: AnyClient):
    error = catch_local(lambda: any_client.infer_shape([2, 3], [4, -1], explain=True))
    assert (error.reason, error.metadata["rule"]) == (Reason.NOT_DIVISIBLE, "3")
    assert error.metadata["accepted"].startswith("other items whose product divides 6")
    error = catch_local(lambda: any_client.infer_shape([2, 3], [4, -1]))
    assert not {"rule", "accepted"} & set(error.metadata)


def test_an_expected_shape_that_cannot_be_is_refused(any_client: AnyClient):
    error = catch_local(lambda: any_client.infer_shape([(2, 8)], [-1], expected_shape=[9]))
    assert (error.reason, error.field) == (Reason.EXPECTED_SHAPE_MISMATCH, "expected_shape.dims[0]")


# data, target, strides, possibility, strides of the output
VIEWS: list[tuple[list[DimLike], list[DimLike], list[int], ViewPossibility, tuple[int, ...] | None]] = [
    ([2, 4], [2, 2, 2], [8, 1], ViewPossibility.POSSIBLE, (8, 2, 1)),
    ([3, 2], [6], [1, 3], ViewPossibility.IMPOSSIBLE, None),
    ([2, "N"], [-1], [4, 1], ViewPossibility.UNKNOWN, None),
]


def test_an_answer_says_whether_the_output_can_be_a_view(any_client: AnyClient):
    views = [any_client.infer_shape(data, target, data_strides=strides).view for data, target, strides, *_ in VIEWS]
    assert views == [(possibility, want) for *_, possibility, want in VIEWS]
    error = catch_local(lambda: any_client.infer_shape([2, 3], [6], data_strides=[3, -1]))
    assert error.reason == Reason.STRIDE_NEGATIVE


def test_an_executed_reshape_takes_expected_bounds(any_client: AnyClient):
    assert any_client.reshape(np.arange(6), [3, -1], expected_shape=["N", (1, 4)]).shape == (3, 2)


def test_a_batch_without_queries_has_no_answers(any_client: AnyClient):
    assert any_client.infer_shapes([]) == []


def test_ten_thousand_linked_queries_are_one_call(any_client: AnyClient):
    first = ShapeQuery(data_shape=["N", 24], shape=[0, 4, 6], special_zero=True)
    shapes = ([0, -1], [0, 4, 6])
    chain = [ShapeQuery(data_from=index, shape=shapes[index % 2], special_zero=True) for index in range(9999)]
    answers = list(map(str, any_client.infer_shapes([first, *chain], timeout=60)))
    assert answers == ["[N, 4, 6]", "[N, 24]"] * 5000


def test_the_pieces_of_a_long_batch_are_answered_in_order(any_client: AnyClient):
    queries = [ShapeQuery(data_shape=[number, 2], shape=[-1], special_zero=False) for number in range(10_000)]
    assert any_client.infer_shapes(queries) == [(2 * number,) for number in range(10_000)]
    wrong = ShapeQuery(data_shape=[2.5], shape=[-1], special_zero=False)  # type: ignore[list-item]
    with pytest.raises(TypeError):
        any_client.infer_shapes([*queries, wrong])


def test_a_refused_query_fails_only_those_that_depend_on_it(any_client: AnyClient):
    linked = [ShapeQuery(data_from=index, shape=[-1], special_zero=False) for index in (0, 1)]
    answers = any_client.infer_shapes([REFUSED, *linked, FLATTEN])
    assert read_reasons(answers) == [Reason.VOLUME_MISMATCH, Reason.LINK_FAILED, Reason.LINK_FAILED, ""]
    first, alone = answers[0], catch_local(lambda: any_client.infer_shape([2, 3], [4]))
    assert isinstance(first, ReshapeError)
    assert (describe(first), first.message) == (describe(alone), alone.message)


def test_a_query_above_a_limit_is_a_limit_error(any_client: AnyClient):
    long = ShapeQuery(data_shape=[1] * 65, shape=[1], special_zero=False, operation="reshape")
    first, second = any_client.infer_shapes([long, FLATTEN])
    assert isinstance(first, LimitError)
    assert first.reason == Reason.RANK_LIMIT_EXCEEDED
    assert second == (6,)


def test_a_link_that_does_not_go_back_is_refused(any_client: AnyClient):
    linked = [ShapeQuery(data_from=to, shape=[-1], special_zero=False) for to in (-1, 2, 2**31 - 1)]
    both = ShapeQuery(data_shape=[6], data_from=0, shape=[-1], special_zero=False)
    assert read_reasons(any_client.infer_shapes([FLATTEN, *linked, both])) == ["", *[Reason.LINK_INVALID] * 4]


def test_a_batch_runs_concurrently_with_other_calls(client: Client):
    batch = [FLATTEN] * 10_000
    with ThreadPoolExecutor(4) as threads:
        batches = [threads.submit(client.infer_shapes, batch, timeout=60) for _ in range(2)]
        single = [threads.submit(client.infer_shape, [2, 3], [-1], special_zero=False) for _ in range(200)]
        assert {call.result().known for call in single} == {(6,)}
        assert all(answer == (6,) for call in batches for answer in call.result())


EMPTY_ITEM = b"\x0a\x00"


def send(channel: grpc.Channel, raw: bytes) -> list[str]:
    """Sends a batch and returns the reasons of its results, all of which must be refusals."""
    response = send_raw(channel, "BatchInferShape", raw, timeout=60)
    return [result.refusal.reason for result in reshape_pb2.BatchInferShapeResponse.FromString(response).results]


@pytest.mark.parametrize(
    ("raw", "refusal"),
    [
        (b"\x0a\x05", (InvalidRequestError, Reason.MESSAGE_MALFORMED, "")),
        (bytes(2**22 + 1), (LimitError, Reason.BATCH_TOO_LARGE, "items")),
        (EMPTY_ITEM * 65537, (LimitError, Reason.BATCH_TOO_LARGE, "items")),
    ],
    ids=["torn", "above 4 MiB", "65537 items"],
)
def test_a_batch_is_refused_whole(channel: grpc.Channel, raw: bytes, refusal: tuple[type, str, str]):
    assert describe(catch_remote(lambda: send(channel, raw)))[:3] == refusal
    assert send(channel, b"\x0a\x01\x0a" + EMPTY_ITEM) == ["MESSAGE_MALFORMED", "FIELD_MISSING"]


def test_the_largest_batch_is_answered(channel: grpc.Channel):
    assert send(channel, EMPTY_ITEM * 65536) == ["FIELD_MISSING"] * 65536


def test_a_batch_above_the_message_limit_is_refused(small_server: ServerProcess):
    queries = [ShapeQuery(data_shape=[1] * 9, shape=[-1], special_zero=False)] * 300
    with Client(small_server.address) as client:
        error = catch_local(lambda: client.infer_shapes(queries))
    assert (type(error), error.reason) == (LimitError, Reason.MESSAGE_TOO_LARGE)


def test_answers_above_the_messages_of_a_server_are_refused_singly(small_server: ServerProcess):
    explained = [ShapeQuery(data_shape=[1], shape=[1] * 9, special_zero=False, explain=True)] * 60
    with Client(small_server.address) as client:
        reasons = read_reasons(client.infer_shapes(explained))
    assert (reasons[0], reasons[-1], set(reasons)) == ("", Reason.OUTPUT_TOO_LARGE, {"", Reason.OUTPUT_TOO_LARGE})


def test_a_wrong_number_is_blamed_on_its_query(client: Client):
    huge = ShapeQuery(data_shape=[2**63], shape=[1], special_zero=False)
    try:
        last = client.infer_shapes([REFUSED, huge])[-1]
    except InvalidRequestError as error:  # noted before anything is sent
        last = error
    assert isinstance(last, ReshapeError)
    assert (last.reason, last.field) == (Reason.DIM_OUT_OF_RANGE, "data.dims[0]")
