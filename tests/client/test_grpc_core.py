"""Unary calls on gRPC's core: for every outcome, the caller sees the same as with a call of grpcio's public API."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import Any, NamedTuple

import grpc
import numpy as np
import pytest
from grpc._cython import cygrpc  # type: ignore[attr-defined] # compiled, without types

from both_clients import interrupt_call
from in_process import Behavior, Metadata, run_stock
from plain_requests import encode_reshape_response
from tensor_reshape.client import (
    CallTimeoutError,
    Client,
    InvalidRequestError,
    LimitError,
    Reason,
    ResponseError,
    TensorReshapeError,
    grpc_core,
)
from tensor_reshape.client.grpc_core import CoreTransport, GrpcApi, is_supported, is_tls, open_transport
from tensor_reshape.client.transports import Transport
from tensor_reshape.rules.dtypes import DataType
from tensor_reshape.wire.methods import SERVICE
from tensor_reshape.wire.status import Status, encode_rejection
from tensor_reshape.wire.tensors import TensorView

GRPC_APIS: tuple[GrpcApi, ...] = ("auto", "public")
NOBODY = "127.0.0.1:1"
PATH = f"/{SERVICE}/StaticReshape"
SIX = np.arange(6, dtype=np.float32)
SECONDS = 60.0


class End(NamedTuple):
    """The outcome of a call for its caller."""

    kind: type[BaseException]
    code: object
    message: str
    reason: object
    retry_seconds: object
    metadata: object


def find_end(call: Callable[..., object], *arguments: Any, **fields: Any) -> End:
    with pytest.raises((TensorReshapeError, ValueError)) as caught:
        call(*arguments, **fields)
    error, names = caught.value, ("code", "reason", "retry_seconds", "metadata")
    code, reason, retry_seconds, metadata = (getattr(error, name, None) for name in names)
    return End(type(error), code, str(error), reason, retry_seconds, metadata)


class Held:
    """A method that responds after the call is over. `entered`: a call is here. `left`: its caller has gone away."""

    def __init__(self) -> None:
        self.entered, self.left = threading.Event(), threading.Event()

    def __call__(self, request: bytes, context: grpc.ServicerContext) -> bytes:
        is_over = threading.Event()
        context.add_callback(is_over.set)
        self.entered.set()
        is_over.wait(SECONDS)
        self.left.set()
        return request


def abort(code: grpc.StatusCode, details: str, metadata: Metadata = ()) -> Behavior:
    def behave(_: bytes, context: grpc.ServicerContext) -> bytes:
        context.set_trailing_metadata(tuple(metadata))
        context.abort(code, details)

    return behave


def reject(status: Status) -> Behavior:
    return abort(grpc.StatusCode[status.code], status.details, status.trailing_metadata)


def answer(*_: object) -> bytes:
    return encode_reshape_response(TensorView(DataType.F32, (6,), None, memoryview(SIX.tobytes())))


def end(requests: Iterator[bytes], _: grpc.ServicerContext) -> Iterator[bytes]:
    yield from (request for request in requests if not request)


def serve(behavior: Behavior, *options: tuple[str, int]) -> Callable[[], AbstractContextManager[str]]:
    return partial(run_stock, {"StaticReshape": behavior}, options=options)


def reshape(client: Client, **fields: Any) -> object:
    return client.static_reshape(SIX, [6], special_zero=False, **{"timeout": SECONDS, **fields})


NOT_DIVISIBLE = InvalidRequestError.of(Reason.NOT_DIVISIBLE, "6 by 4", "shape[0]", index=0, value=4)
BUSY = LimitError.of(Reason.SERVER_BUSY, "not now")
LATE = "DEADLINE_EXCEEDED: the call did not end within 0.2 seconds"
# The flags of the server, the timeout in seconds, the error, and a part of its text.
ENDS: dict[str, tuple[Callable[[], AbstractContextManager[str]], float, type[Exception], str]] = {
    "a rejection": (serve(reject(encode_rejection(NOT_DIVISIBLE))), SECONDS, InvalidRequestError, "6 by 4"),
    "a rejection that may be retried": (serve(reject(encode_rejection(BUSY))), 0.5, LimitError, "not now"),
    "a method that the server does not have": (partial(run_stock, {}), SECONDS, TensorReshapeError, "UNIMPLEMENTED"),
    "an answer that is too large": (serve(answer, ("grpc.max_send_message_length", 8)), SECONDS, LimitError, ""),
    "a request that is too large": (serve(answer, ("grpc.max_receive_message_length", 8)), SECONDS, LimitError, ""),
    "a bug": (serve(abort(grpc.StatusCode.INTERNAL, "of it")), SECONDS, TensorReshapeError, "of it"),
    "details in no alphabet": (
        serve(abort(grpc.StatusCode.ABORTED, "ünïcode \n\x00 \N{SNOWMAN}")),
        SECONDS,
        TensorReshapeError,
        "\N{SNOWMAN}",
    ),
    "an answer that is none": (serve(lambda *_: b"\xff"), SECONDS, ResponseError, ""),
    "an end without a response": (
        partial(run_stock, {}, streams={"StaticReshape": end}),
        SECONDS,
        ResponseError,
        "without a response",
    ),
    "the end of the time": (serve(Held()), 0.2, CallTimeoutError, LATE),
}


@pytest.mark.parametrize("name", ENDS)
def test_call_errors_are_equal_for_core_and_public_grpc_api(name: str):
    run, seconds, kind, text = ENDS[name]
    ends = []
    with run() as address:
        for grpc_api in GRPC_APIS:
            with Client(address, grpc_api=grpc_api) as client:
                ends.append(find_end(reshape, client, timeout=seconds))
    assert ends[0] == ends[1]
    assert issubclass(ends[0].kind, kind)
    assert text in ends[0].message


@pytest.mark.parametrize("grpc_api", GRPC_APIS)
def test_closing_a_client_ends_running_calls_of_other_threads(grpc_api: GrpcApi):
    held = Held()
    with run_stock({"StaticReshape": held}) as address, ThreadPoolExecutor(1) as pool:
        client = Client(address, grpc_api=grpc_api)
        future = pool.submit(find_end, reshape, client)
        assert held.entered.wait(SECONDS)
        client.close()
        end = future.result(SECONDS)
        assert held.left.wait(SECONDS)
    assert (end.code, end.message) == (grpc.StatusCode.CANCELLED, "CANCELLED: Channel closed!")


@contextmanager
def open_both() -> Iterator[list[Transport]]:
    both = [open_transport(grpc.insecure_channel(NOBODY), grpc_api) for grpc_api in GRPC_APIS]
    yield both
    for transport in both:
        transport.close()


def test_invalid_metadata_error_is_equal_for_both_grpc_apis():
    with open_both() as both:
        direct, stock = (find_end(calls.send, PATH, b"", 1, (("A Key", "x"),)) for calls in both)
    assert direct == stock
    assert "metadata" in direct.message  # the rest depends on the installed grpcio
    for transport in both:  # both channels are closed
        assert find_end(transport.send, PATH, b"", 1, ()).kind is ValueError


def test_call_waits_for_a_server_only_when_requested():
    with open_both() as both:
        waiting = [find_end(calls.send_when_ready, PATH, b"", 0.3, ()).code for calls in both]
        not_waiting = [find_end(calls.send, PATH, b"", SECONDS, ()).code for calls in both]
    assert waiting == [grpc.StatusCode.DEADLINE_EXCEEDED] * 2
    assert not_waiting == [grpc.StatusCode.UNAVAILABLE] * 2


@pytest.mark.parametrize("grpc_api", GRPC_APIS)
def test_killed_server_raises_unavailable(grpc_api: GrpcApi):
    held = Held()
    with ThreadPoolExecutor(1) as pool:
        with run_stock({"StaticReshape": held}) as address:
            transport = open_transport(grpc.insecure_channel(address), grpc_api)
            future = pool.submit(find_end, transport.send, PATH, b"", SECONDS, ())
            assert held.entered.wait(SECONDS)
        end = future.result(SECONDS)
        transport.close()
    assert end.code in {
        grpc.StatusCode.UNAVAILABLE,
        grpc.StatusCode.CANCELLED,
    }  # `retries` treats both codes as a lost call


@pytest.mark.parametrize("grpc_api", GRPC_APIS)
def test_ctrl_c_cancels_a_call_in_client_and_server(grpc_api: GrpcApi):
    held = Held()
    with run_stock({"StaticReshape": held}) as address:
        call = "client.static_reshape(np.zeros(6, np.float32), [6], special_zero=False)"
        assert interrupt_call(address, grpc_api, call, held.entered) == "interrupted\n"
        assert held.left.wait(SECONDS)


def test_client_uses_grpc_core_api_unless_public_is_requested():
    with open_both() as both:
        assert [type(transport) for transport in both] == [CoreTransport, Transport]
    with pytest.raises(ValueError, match=r"'fast'.*auto, public"):
        Client(grpc_api="fast")  # type: ignore[arg-type] # as a caller without type checks may pass it


def test_core_api_requires_a_grpcio_with_all_internal_parts(monkeypatch: pytest.MonkeyPatch):
    class Channel(cygrpc.Channel):  # type: ignore[misc] # compiled, without types
        def segregated_call(self, method: bytes, deadline: float) -> None:
            del method, deadline

    assert is_supported()
    for part in ("Channel", "ReceiveStatusOnClientOperation", "build_census_context"):
        with monkeypatch.context() as patch:
            patch.delattr(cygrpc, part)
            assert not is_supported.__wrapped__(), part
    monkeypatch.setattr(cygrpc, "Channel", Channel)  # its calls have other arguments
    assert not is_supported.__wrapped__()


def test_client_uses_public_grpc_api_with_unsupported_grpcio(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(grpc_core, "is_supported", lambda: False)
    with run_stock({"StaticReshape": answer}) as address, Client(address) as client:
        assert type(client._turns.take()) is Transport
        assert np.array_equal(client.static_reshape(SIX, [6], special_zero=False), SIX)


@pytest.mark.parametrize("grpc_api", GRPC_APIS)
def test_reading_the_channel_state_does_not_connect_the_channel(grpc_api: GrpcApi):
    transport = open_transport(grpc.insecure_channel(NOBODY), grpc_api)
    assert transport.find_state() is grpc.ChannelConnectivity.IDLE
    transport.close()
    assert transport.find_state() is None


def test_is_tls_recognizes_tls_channel_credentials():
    tls, token = grpc.ssl_channel_credentials(), grpc.access_token_call_credentials("a-token")
    assert is_tls(tls)
    assert not is_tls(grpc.composite_channel_credentials(tls, token))
