"""Both clients have the same public methods, and behave in the same way."""

import inspect
import time
from typing import Unpack, get_args, get_origin, get_type_hints

import grpc
import pytest

from both_clients import CLIENTS, open_client
from in_process import run_stock
from tensor_reshape.client import AsyncClient, Client, ShapeQuery
from tensor_reshape.client.contexts import CALL_OPTIONS
from tensor_reshape.client.queries import MAX_CALL_QUERIES, MAX_PARALLEL_CALLS
from tensor_reshape.rules.questions import ShapeAnswer
from tensor_reshape.wire.batches import decode_batch_request, encode_batch_response

ONLY_BLOCKING = {"submit"}  # an event loop has tasks
SECONDS, HELD_SECONDS = 60.0, 1.0
PUBLIC = [name for name in vars(Client) if not name.startswith("_") and name not in ONLY_BLOCKING]


def test_sync_and_async_clients_have_the_same_methods():
    assert [name for name in vars(AsyncClient) if not name.startswith("_")] == PUBLIC
    for name in PUBLIC:
        blocking, awaited = getattr(Client, name), getattr(AsyncClient, name)
        assert (inspect.signature(blocking), name) == (inspect.signature(awaited), name)
        assert inspect.iscoroutinefunction(awaited), name


def test_sync_and_async_clients_have_the_same_constructor_options():
    assert inspect.signature(Client) == inspect.signature(AsyncClient)


def test_every_client_method_accepts_the_common_call_options():
    for name in sorted(set(PUBLIC) - {"close", "wait_until_ready"}):
        for kind in (Client, AsyncClient):
            hints = get_type_hints(getattr(kind, name), include_extras=True).values()
            (options,) = [get_args(hint)[0] for hint in hints if get_origin(hint) is Unpack]
            assert options.__annotations__.keys() >= CALL_OPTIONS, name
            assert "timeout" in inspect.signature(getattr(kind, name)).parameters, name


@pytest.mark.parametrize("kind", CLIENTS)
def test_split_batch_calls_share_one_deadline(kind: str):
    left: list[float] = []  # the remaining time of each call when it arrives

    def answer_late(request: bytes, context: grpc.ServicerContext) -> bytes:
        left.append(context.time_remaining())
        if len(left) <= MAX_PARALLEL_CALLS:  # the other calls begin after the responses to these
            time.sleep(HELD_SECONDS)
        return encode_batch_response([ShapeAnswer((6,))] * len(decode_batch_request(request)), 2**20)

    count = MAX_CALL_QUERIES * (MAX_PARALLEL_CALLS + 1)
    queries = [ShapeQuery(data_shape=[6], shape=[6], special_zero=False)] * count
    with run_stock({"BatchInferShape": answer_late}) as address, open_client(kind, address) as client:
        answers = client.infer_shapes(queries, timeout=SECONDS)
    assert answers == [(6,)] * count
    assert len(left) == MAX_PARALLEL_CALLS + 1
    assert min(left) < SECONDS - HELD_SECONDS / 2  # the core rounds timeouts up, and grpcio subtracts the wall clock
