"""Deadlines, retries, metadata, and what becomes of answers that are none."""

import math
import threading
import time
from collections.abc import Callable, Iterator
from typing import cast

import grpc
import numpy as np
import pytest

from both_clients import CLIENTS, open_client
from in_process import Behavior, run_blocked, run_stock
from tensor_reshape.client import (
    AsyncClient,
    CallTimeoutError,
    Client,
    InvalidRequestError,
    ResponseError,
    ServiceError,
    ShapeQuery,
    TensorReshapeError,
)
from tensor_reshape.client.pieces import MAX_PIECES, PIECE_QUERIES
from tensor_reshape.rules.answers import ShapeAnswer
from tensor_reshape.rules.dtypes import DataType
from tensor_reshape.wire.batches import decode_batch_request, encode_batch_response
from tensor_reshape.wire.inference import build_infer_response
from tensor_reshape.wire.reshapes import encode_reshape_response
from tensor_reshape.wire.tensors import TensorView

SIX = np.arange(6, dtype=np.float32)
GOOD = build_infer_response(ShapeAnswer((6,))).SerializeToString()


class Counted:
    """Aborts the first calls with a code, then answers; counts the attempts."""

    def __init__(self, code: grpc.StatusCode, failures: int) -> None:
        self.code, self.failures, self.attempts = code, failures, 0

    def __call__(self, request: bytes, context: grpc.ServicerContext) -> bytes:
        del request
        self.attempts += 1
        if self.attempts <= self.failures:
            context.abort(self.code, "not now")
        return GOOD


class Recorder(grpc.ServerInterceptor):
    """Keeps the metadata of every call."""

    def __init__(self) -> None:
        self.metadata: list[tuple[str, str | bytes]] = []

    def intercept_service(  # type: ignore[override] # whatever comes next is passed on
        self, continuation: Callable[..., object], handler_call_details: grpc.HandlerCallDetails
    ) -> object:
        self.metadata += cast("list[tuple[str, str | bytes]]", handler_call_details.invocation_metadata)
        return continuation(handler_call_details)


def answer(raw: bytes) -> Behavior:
    return lambda request, context: raw  # noqa: ARG005 - the signature is grpc's


def infer(client: Client) -> tuple[int, ...]:
    return client.infer_shape([6], [6], special_zero=False).known


@pytest.fixture
def blocked_address() -> Iterator[str]:
    with run_blocked() as (runner, _):
        yield runner.addresses[0]


def test_the_deadline_of_the_client_ends_a_call(blocked_address: str):
    with Client(blocked_address, timeout=0.2) as client, pytest.raises(CallTimeoutError):
        client.static_reshape(SIX, [6], special_zero=False)


async def test_the_deadline_of_an_asyncio_client_ends_a_call(blocked_address: str):
    async with AsyncClient(blocked_address, timeout=0.2) as client:
        with pytest.raises(CallTimeoutError):
            await client.static_reshape(SIX, [6], special_zero=False)


@pytest.mark.parametrize("default", [30.0, math.inf])
def test_the_timeout_of_a_call_wins(blocked_address: str, default: float):
    with Client(blocked_address, timeout=default) as client, pytest.raises(CallTimeoutError):
        client.static_reshape(SIX, [6], special_zero=False, timeout=0.2)


def test_an_infinite_timeout_outlasts_the_default_of_the_client():
    with run_blocked() as (runner, backend), Client(runner.addresses[0], timeout=0.1) as client:
        timer = threading.Timer(0.5, backend.released.set)
        timer.start()
        output = client.static_reshape(SIX, [6], special_zero=False, timeout=math.inf)
        timer.join()
    assert output.tolist() == SIX.tolist()


@pytest.mark.parametrize("kind", CLIENTS)
def test_the_deadline_of_a_batch_is_one_for_all_its_pieces(kind: str):
    calls: list[int] = []

    def answer_late(request: bytes, context: grpc.ServicerContext) -> bytes:
        ended = threading.Event()
        if context.add_callback(ended.set):
            ended.wait(0.4)
        calls.append(1)
        return encode_batch_response([ShapeAnswer((6,))] * len(decode_batch_request(request)), 2**20)

    queries = [ShapeQuery(data_shape=[6], shape=[6], special_zero=False)] * (PIECE_QUERIES * MAX_PIECES * 3)
    with run_stock({"BatchInferShape": answer_late}) as address, open_client(kind, address) as client:
        begin = time.monotonic()
        with pytest.raises(CallTimeoutError):  # four at a time: the last begins to be answered after two seconds
            client.infer_shapes(queries, timeout=1.2)
        assert (time.monotonic() - begin < 1.8, len(calls) < 24) == (True, True)


def test_a_timeout_is_also_the_timeout_of_python(blocked_address: str):
    with Client(blocked_address) as client, pytest.raises(TimeoutError):
        client.static_reshape(SIX, [6], special_zero=False, timeout=0.1)


def test_unavailable_is_retried():
    counted = Counted(grpc.StatusCode.UNAVAILABLE, 2)
    with run_stock({"InferShape": counted}) as address, Client(address) as client:
        assert (infer(client), counted.attempts) == ((6,), 3)


async def test_unavailable_is_retried_by_an_asyncio_client():
    counted = Counted(grpc.StatusCode.UNAVAILABLE, 2)
    with run_stock({"InferShape": counted}) as address:
        async with AsyncClient(address) as client:
            assert await client.infer_shape([6], [6], special_zero=False) == (6,)
    assert counted.attempts == 3


def test_a_large_request_is_retried_too():
    large = np.zeros(2**20, np.float32)
    counted = Counted(grpc.StatusCode.UNAVAILABLE, 2)
    response = encode_reshape_response(TensorView(DataType.F32, (2**20,), None, memoryview(large.tobytes())))

    def reshape(request: bytes, context: grpc.ServicerContext) -> bytes:
        counted(request, context)
        return response

    with (
        run_stock({"StaticReshape": reshape}, options=[("grpc.max_receive_message_length", -1)]) as address,
        Client(address) as client,
    ):
        assert client.static_reshape(large, [-1], special_zero=False, transfer="inline").shape == (2**20,)
    assert counted.attempts == 3


@pytest.mark.parametrize(
    "code",
    [
        grpc.StatusCode.INVALID_ARGUMENT,
        grpc.StatusCode.RESOURCE_EXHAUSTED,
        grpc.StatusCode.INTERNAL,
        grpc.StatusCode.PERMISSION_DENIED,
    ],
)
def test_nothing_else_is_retried(code: grpc.StatusCode):
    counted = Counted(code, 100)
    with (
        run_stock({"InferShape": counted}) as address,
        Client(address) as client,
        pytest.raises(ServiceError) as caught,
    ):
        infer(client)
    assert (caught.value.code, counted.attempts) == (code, 1)


@pytest.mark.usefixtures("impatience")
def test_no_server_at_all_is_a_connection_error():
    with Client("127.0.0.1:1") as client, pytest.raises(ConnectionError):
        infer(client)


def test_metadata_travel_with_every_call():
    recorder = Recorder()
    with (
        run_stock({"InferShape": answer(GOOD)}, interceptors=[recorder]) as address,
        Client(address, metadata=[("tenant", "a"), ("key-bin", b"\x00\xff")]) as client,
    ):
        infer(client)
        infer(client)
    assert recorder.metadata.count(("tenant", "a")) == recorder.metadata.count(("key-bin", b"\x00\xff")) == 2


async def test_metadata_travel_with_every_awaited_call():
    recorder = Recorder()
    with run_stock({"InferShape": answer(GOOD)}, interceptors=[recorder]) as address:
        async with AsyncClient(address, metadata=[("tenant", "a")]) as client:
            await client.infer_shape([6], [6], special_zero=False)
    assert ("tenant", "a") in recorder.metadata


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
