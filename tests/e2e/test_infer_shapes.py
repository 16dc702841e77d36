"""Partially known shapes and batches of queries, through a server in a separate process."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
import pytest

from both_clients import CLIENTS, AnyClient, open_client
from plain_requests import catch_local, send_raw
from server_processes import ServerProcess
from tensor_reshape.client import Client, DimLike, InferredShape, Reason, ReshapeError, ShapeQuery
from tensor_reshape.rules.questions import Kind
from tensor_reshape.v1 import reshape_pb2


@pytest.fixture(params=CLIENTS)
def any_client(server: ServerProcess, request: pytest.FixtureRequest) -> Iterator[AnyClient]:
    with open_client(request.param, server.address) as client:
        yield client


# input shape, requested shape, other arguments, output shape as text
QUERIES: list[tuple[list[DimLike] | None, list[DimLike] | None, dict[str, Any], str]] = [
    ([None, 4], [0, -1], {"special_zero": True}, "[1.., 4]"),
    ([(2, 8), 4], [-1], {}, "[8..32]"),
    (["N", 4], [0, -1], {"special_zero": True}, "[N, 4]"),
    (["N", 6], [-1, 4], {}, "[3*N/2, 4]"),
    (None, None, {}, "[...]"),
    ([(0, 8)], [-1], {"expected_shape": [(4, 20)]}, "[4..8]"),
    ([2, 3], None, {"expected_shape": [None, 2]}, "[3, 2]"),
    ([2**62] * 2, [4, 2**60, 2**62], {"operation": "reshape"}, f"[4, {2**60}, {2**62}]"),
]


def test_server_infers_partial_shapes(any_client: AnyClient):
    answers = [str(any_client.infer_shape(data, target, **more)) for data, target, more, _ in QUERIES]
    assert answers == [text for *_, text in QUERIES]


# input shape, requested shape, conditions as text, whether they are complete
CONDITIONS: list[tuple[list[DimLike], list[DimLike], list[str], bool]] = [
    (["batch", 16, 4, 4], [1, 256], ["batch = 1"], True),
    (["b", 6], [4, -1], ["2 divides b"], True),
    (["batch", 9, "h", "w"], [-1, 1, 3, 3, 224, 224], ["50176 divides batch*h*w"], True),
    ([None, 6], [4, -1], ["2 divides data[0]"], True),
    (["N", 4], [None, 8], ["2 divides N"], False),
    ([2, 3], [6], [], True),
]


def test_result_lists_the_conditions_that_inputs_must_satisfy(any_client: AnyClient):
    queries = [ShapeQuery(data_shape=data, shape=shape, special_zero=False) for data, shape, *_ in CONDITIONS]
    alone = [any_client.infer_shape(data, shape) for data, shape, *_ in CONDITIONS]
    together = [answer for answer in any_client.infer_shapes(queries) if isinstance(answer, InferredShape)]
    for answers in (alone, together):
        assert [(list(map(str, answer.conditions)), answer.conditions_complete) for answer in answers] == [
            (texts, complete) for *_, texts, complete in CONDITIONS
        ]


def test_dynamic_reshape_query_accepts_items_above_i32(any_client: AnyClient):
    for target in ([2**40], [-1], [2**39, 2]):
        shape = any_client.infer_shape([2**40], target, special_zero=False, operation="dynamic_reshape")
        assert shape == tuple(2**40 if item == -1 else item for item in target)


def test_results_and_errors_have_explanations_if_requested(any_client: AnyClient):
    explained = any_client.infer_shape([2, "N", 4], [0, -1, 2], special_zero=True, explain=True)
    copied, inferred, literal = explained.origins
    assert explained.groups == ((range(1), range(1)), (range(1, 3), range(1, 3)))
    assert [copied.kind, inferred.kind, literal.kind] == [Kind.COPIED, Kind.INFERRED, Kind.LITERAL]
    assert (copied.data_index, inferred.dividend, inferred.divisor) == (0, "N*8", "4")
    answer = any_client.infer_shape([2, 3], [6])
    assert answer.origins == ()
    error = catch_local(lambda: any_client.infer_shape([2, 3], [4, -1], explain=True))
    assert (error.reason, error.metadata["rule"]) == (Reason.NOT_DIVISIBLE, "3")
    assert error.metadata["accepted"].startswith("other items whose product divides 6")
    error = catch_local(lambda: any_client.infer_shape([2, 3], [4, -1]))
    assert not {"rule", "accepted"} & set(error.metadata)


def test_ten_thousand_queries_with_data_from_need_one_call(any_client: AnyClient):
    first = ShapeQuery(data_shape=["N", 24], shape=[0, 4, 6], special_zero=True)
    shapes = ([0, -1], [0, 4, 6])
    chain = [ShapeQuery(data_from=index, shape=shapes[index % 2], special_zero=True) for index in range(9999)]
    answers = list(map(str, any_client.infer_shapes([first, *chain], timeout=60)))
    assert answers == ["[N, 4, 6]", "[N, 24]"] * 5000


LONG = [ShapeQuery(data_shape=[number, 2], shape=[-1], special_zero=False) for number in range(10_000)]


def test_batch_split_into_several_calls_keeps_its_order(any_client: AnyClient):
    assert any_client.infer_shapes(LONG) == [(2 * number,) for number in range(10_000)]


def test_large_batch_does_not_block_other_calls(client: Client):
    with ThreadPoolExecutor(4) as threads:
        batches = [threads.submit(client.infer_shapes, LONG, timeout=60) for _ in range(2)]
        single = [threads.submit(client.infer_shape, [2, 3], [-1], special_zero=False) for _ in range(200)]
        assert {call.result().known for call in single} == {(6,)}
        assert [call.result() for call in batches] == [[(2 * number,) for number in range(10_000)]] * 2


def test_largest_allowed_batch_is_accepted(channel: grpc.Channel):
    response = send_raw(channel, "BatchInferShape", b"\x0a\x00" * 65536, timeout=60)
    results = reshape_pb2.BatchInferShapeResponse.FromString(response).results
    assert [result.rejection.reason for result in results] == ["FIELD_MISSING"] * 65536


def test_batch_results_above_the_message_limit_become_errors(small_server: ServerProcess):
    explained = [ShapeQuery(data_shape=[1], shape=[1] * 9, special_zero=False, explain=True)] * 60
    with Client(small_server.address) as client:
        answers = client.infer_shapes(explained)
    reasons = [answer.reason if isinstance(answer, ReshapeError) else "" for answer in answers]
    assert (reasons[0], reasons[-1], set(reasons)) == ("", Reason.OUTPUT_TOO_LARGE, {"", Reason.OUTPUT_TOO_LARGE})


def test_unknown_dim_of_a_result_does_not_become_an_inferred_item(any_client: AnyClient):
    unknown = any_client.infer_shape([-1, None], [0, 0], special_zero=True)
    assert unknown.dims == (None, None)
    with pytest.raises(ReshapeError) as caught:
        any_client.infer_shape([4, 6], [-1, -1], special_zero=False)
    assert caught.value.reason is Reason.MULTIPLE_MINUS_ONE
    again = any_client.infer_shape([4, 6], unknown, special_zero=False)
    assert str(again) == "[1..24, 1..24]"
    queries = [
        ShapeQuery(data_shape=[None, 6], shape=[0, -1], special_zero=True),
        ShapeQuery(data_from=0, shape=[-1, 2], special_zero=False, expected_shape=[-1, -1]),
        ShapeQuery(data_shape=[4, 6], shape=unknown, special_zero=False),
    ]
    assert list(map(str, any_client.infer_shapes(queries))) == ["[1.., 6]", "[3.., 2]", "[1..24, 1..24]"]
