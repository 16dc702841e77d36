"""A replica of a Ray Serve deployment has the same responses as the server, through the context of Ray Serve."""

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import grpc
import pytest

from plain_requests import SIX, STATIC_RESHAPE, begin, build_static_request, chunk
from tensor_reshape.rules.errors import Reason, ReshapeError
from tensor_reshape.rules.limits import Limits
from tensor_reshape.server.calls.statuses import INTERNAL_ERROR
from tensor_reshape.server.config import Config
from tensor_reshape.server.ray.replicas import EndedError, ReshapeReplica, add_reshape_service, read_limits
from tensor_reshape.server.service.method_tables import Estimate, StreamMethod, UnaryMethod
from tensor_reshape.server.service.methods import ReshapeService
from tensor_reshape.v1 import reshape_pb2
from tensor_reshape.wire.methods import INFER_SHAPE, STREAM_RESHAPE
from tensor_reshape.wire.reshapes import decode_stream_response
from tensor_reshape.wire.status import decode_rejection

SECRET = "not for callers"


@dataclass
class Told:
    """The status of a call, as Ray Serve's context stores it."""

    code: grpc.StatusCode | None = None
    details: str = ""
    trailing_metadata: list[tuple[str, str | bytes]] = field(default_factory=list)

    def set_code(self, code: grpc.StatusCode) -> None:
        self.code = code

    def set_details(self, details: str) -> None:
        self.details = details

    def set_trailing_metadata(self, trailing_metadata: list[tuple[str, str | bytes]]) -> None:
        self.trailing_metadata = trailing_metadata


class LongSession:
    """A stream whose message is processed until other calls have run."""

    is_between_tensors = True

    def __init__(self) -> None:
        self.others_ran = threading.Event()

    def receive(self, _raw: bytes) -> Iterator[bytes]:
        assert self.others_ran.wait(60)
        yield b"done"

    def estimate(self, _raw: bytes) -> Estimate:
        return Estimate(takes_long=True, needed_bytes=None)

    def finish(self) -> None:
        pass


@pytest.fixture
def replica() -> ReshapeReplica:
    return ReshapeReplica(Limits())


async def send(*messages: bytes) -> AsyncIterator[bytes]:
    for message in messages:
        yield message


def read_rejection(told: Told) -> ReshapeError:
    assert told.code is not None
    rejection = decode_rejection(told.code.name, told.trailing_metadata)
    assert rejection is not None
    assert rejection.message == told.details
    return rejection


def test_ray_replica_has_every_api_method():
    names = [path.rpartition("/")[2] for path in ReshapeService(Limits()).methods.names]
    assert [name for name in names if not hasattr(ReshapeReplica, name)] == []


async def test_ray_replica_returns_the_responses_of_the_server(replica: ReshapeReplica):
    told, request = Told(), build_static_request()
    answer = await replica.StaticReshape(request, grpc_context=told)  # type: ignore[attr-defined] # Ray Serve sets the attribute by name
    methods = {method.name: method for method in ReshapeService(Limits()).methods.unary}
    assert answer.SerializeToString() == methods[STATIC_RESHAPE].respond(request, lambda: False)
    assert told == Told()


async def test_ray_replica_error_has_status_details(replica: ReshapeReplica):
    told = Told()
    await replica.answer(INFER_SHAPE.path, reshape_pb2.InferShapeRequest().SerializeToString(), told)
    assert told.code is grpc.StatusCode.INVALID_ARGUMENT
    read_rejection(told)


async def test_ray_replica_does_not_send_exception_text(replica: ReshapeReplica):
    def fail(*_: object) -> bytes:
        raise RuntimeError(SECRET)

    replica._unary[STATIC_RESHAPE] = UnaryMethod(STATIC_RESHAPE, fail, fail)
    told = Told()
    await replica.answer(STATIC_RESHAPE, b"", told)
    assert told == Told(grpc.StatusCode.INTERNAL, INTERNAL_ERROR)


async def test_ray_replica_answers_the_messages_of_a_stream(replica: ReshapeReplica):
    answers = replica.StreamReshape(send(begin(), chunk(0, SIX)), grpc_context=Told())  # type: ignore[attr-defined]
    _accepted, passed = [decode_stream_response(message.raw) async for message in answers]
    assert bytes(passed.payload) == SIX


async def test_ray_replica_rejected_stream_has_its_reason(replica: ReshapeReplica):
    for messages, reason in (
        ((begin((6,), (4, -1)),), Reason.NOT_DIVISIBLE),
        ((begin(), chunk(0, SIX[:3])), Reason.DATA_SIZE_MISMATCH),
    ):
        told = Told()
        with pytest.raises(EndedError):
            [message async for message in replica.answer_stream(STREAM_RESHAPE.path, send(*messages), told)]
        assert read_rejection(told).reason is reason


def test_ray_application_accepts_only_the_limits_that_take_effect():
    assert read_limits({"max_message_bytes": 4096}) == Config(max_message_bytes=4096).limits
    with pytest.raises(ValueError, match=r"Remove max_calls, workers$"):  # these flags would have no effect
        read_limits({"max_message_bytes": 4096, "workers": 2, "max_calls": 3})


async def test_ray_replica_stream_does_not_block_other_calls(replica: ReshapeReplica):
    session = LongSession()
    replica._streams = {STREAM_RESHAPE.path: StreamMethod(STREAM_RESHAPE.path, lambda _take: session)}
    asyncio.get_running_loop().call_soon(session.others_ran.set)  # runs on the event loop, which must not be blocked
    messages = replica.answer_stream(STREAM_RESHAPE.path, send(b"long"), Told())
    assert [message.raw async for message in messages] == [b"done"]


def test_ray_methods_answer_only_through_a_ray_serve_proxy():
    server = grpc.server(ThreadPoolExecutor(1))
    add_reshape_service(None, server)
    address = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    server.start()
    try:
        for path in (STATIC_RESHAPE, STREAM_RESHAPE.path):
            with grpc.insecure_channel(address) as channel:
                method: grpc.StreamStreamMultiCallable[bytes, bytes] = channel.stream_stream(path)
                call = method(iter([b""]), timeout=30)
                with pytest.raises(grpc.RpcError):
                    next(call)
                assert "only a proxy of Ray Serve" in (call.details() or "")
    finally:
        server.stop(None).wait()
