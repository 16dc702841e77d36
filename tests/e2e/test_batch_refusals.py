"""Batches that are refused as a whole."""

import grpc
import pytest

from remote_refusals import catch_remote, describe, send_raw
from server_processes import ServerProcess
from tensor_reshape.client import Client, InvalidRequestError, LimitError, Reason, ReshapeError, ShapeQuery
from tensor_reshape.v1 import reshape_pb2

EMPTY_ITEM = b"\x0a\x00"


def send(channel: grpc.Channel, raw: bytes) -> reshape_pb2.BatchInferShapeResponse:
    return reshape_pb2.BatchInferShapeResponse.FromString(send_raw(channel, "BatchInferShape", raw, timeout=60))


# request, class, reason, field
REFUSALS: dict[str, tuple[bytes, type[ReshapeError], Reason, str]] = {
    "garbage": (b"\xff", InvalidRequestError, Reason.MESSAGE_MALFORMED, ""),
    "a torn item": (b"\x0a\x05", InvalidRequestError, Reason.MESSAGE_MALFORMED, ""),
    "above 4 MiB": (bytes(2**22 + 1), LimitError, Reason.BATCH_TOO_LARGE, "items"),
    "65537 items": (EMPTY_ITEM * 65537, LimitError, Reason.BATCH_TOO_LARGE, "items"),
    "two million items": (EMPTY_ITEM * 2**21, LimitError, Reason.BATCH_TOO_LARGE, "items"),
}


@pytest.mark.parametrize(("raw", "kind", "reason", "field"), REFUSALS.values(), ids=REFUSALS.keys())
def test_a_batch_is_refused(channel: grpc.Channel, raw: bytes, kind: type[ReshapeError], reason: Reason, field: str):
    assert describe(catch_remote(lambda: send(channel, raw)))[:3] == (kind, reason, field)


def test_a_batch_of_as_many_items_as_are_admitted_is_answered(channel: grpc.Channel):
    results = send(channel, EMPTY_ITEM * 65536).results
    assert {result.refusal.reason for result in results} == {"FIELD_MISSING"}
    assert len(results) == 65536


def test_a_batch_that_is_no_message_is_refused_item_by_item(channel: grpc.Channel):
    results = send(channel, b"\x0a\x01\x0a" + EMPTY_ITEM).results
    assert [result.refusal.reason for result in results] == ["MESSAGE_MALFORMED", "FIELD_MISSING"]


def test_a_batch_above_the_messages_of_a_server_is_too_large(small_server: ServerProcess):
    queries = [ShapeQuery(data_shape=[1] * 9, shape=[-1], special_zero=False)] * 300
    with Client(small_server.address) as client, pytest.raises(LimitError) as caught:
        client.infer_shapes(queries)
    assert caught.value.reason == Reason.MESSAGE_TOO_LARGE


def test_answers_above_the_messages_of_a_server_are_refused_one_by_one(small_server: ServerProcess):
    queries = [ShapeQuery(data_shape=[1], shape=[1] * 9, special_zero=False)] * 100
    explained = [ShapeQuery(data_shape=[1], shape=[1] * 9, special_zero=False, explain=True)] * 60
    with Client(small_server.address) as client:
        assert not any(isinstance(answer, ReshapeError) for answer in client.infer_shapes(queries[:50]))
        answers = client.infer_shapes(explained)
    reasons = [answer.reason if isinstance(answer, ReshapeError) else "" for answer in answers]
    assert (reasons[0], reasons[-1], set(reasons)) == ("", Reason.OUTPUT_TOO_LARGE, {"", Reason.OUTPUT_TOO_LARGE})


def test_the_wrong_number_of_a_batch_is_blamed_on_its_own_query(server: ServerProcess):
    refused = ShapeQuery(data_shape=[2], shape=[3], special_zero=False)
    huge = ShapeQuery(data_shape=[2**63], shape=[1], special_zero=False)
    with Client(server.address) as client:
        try:
            answers = client.infer_shapes([refused, huge])
        except InvalidRequestError as error:
            answers = [error]
    last = answers[-1]
    assert isinstance(last, ReshapeError)
    assert (last.reason, last.field) == (Reason.DIM_OUT_OF_RANGE, "data.dims[0]")


def test_a_refused_batch_affects_nothing_else(client: Client, channel: grpc.Channel):
    catch_remote(lambda: send(channel, b"\xff"))
    (answer,) = client.infer_shapes([ShapeQuery(data_shape=[2], shape=[2], special_zero=False)])
    assert answer == (2,)
