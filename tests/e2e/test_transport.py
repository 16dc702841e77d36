"""What is wrong before or beneath the rules: bytes, sizes, names, and bugs of the server."""

import logging

import grpc
import numpy as np
import pytest

from in_process import run_runner
from plain_requests import INFER, INFERRED
from remote_refusals import catch_remote, catch_status, describe, send_raw
from server_processes import ServerProcess
from tensor_reshape.client import AsyncClient, Client, InternalServerError, InvalidRequestError, LimitError, Reason
from tensor_reshape.rules.limits import Limits
from tensor_reshape.wire.tensors import TensorView

SIX = np.arange(6, dtype=np.float32)
MALFORMED = [b"\xff", b"\x7a\x05\x08", b"\x00", b"\x7a" + b"\xff" * 10, b"\x0b" * 200, b"\x0a\xff\xff\xff\xff\x7f"]
METHODS = ["StaticReshape", "DynamicReshape", "Reshape", "InferShape"]


class Breaks:
    """A backend with a bug that shows once."""

    def __init__(self) -> None:
        self.broken = True

    def __call__(self, data: TensorView, dims: tuple[int, ...], limits: Limits) -> TensorView:
        del limits
        if self.broken:
            self.broken = False
            message = "secret"
            raise RuntimeError(message)
        return TensorView(data.data_type, dims, None, data.payload)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("raw", MALFORMED)
def test_bytes_that_are_no_message_are_refused(channel: grpc.Channel, method: str, raw: bytes):
    error = catch_remote(lambda: send_raw(channel, method, raw))
    assert describe(error) == (InvalidRequestError, Reason.MESSAGE_MALFORMED, "", {})


@pytest.mark.parametrize("method", METHODS)
def test_no_bytes_at_all_are_a_message_without_its_fields(channel: grpc.Channel, method: str):
    error = catch_remote(lambda: send_raw(channel, method, b""))
    reason = Reason.OPERATION_UNSPECIFIED if method == "InferShape" else Reason.FIELD_MISSING
    assert describe(error)[:2] == (InvalidRequestError, reason)


def test_malformed_bytes_affect_no_later_call_on_the_channel(channel: grpc.Channel):
    catch_status(lambda: send_raw(channel, "StaticReshape", b"\xff"))
    assert send_raw(channel, "InferShape", INFER) == INFERRED


def test_a_method_that_does_not_exist_is_unimplemented(channel: grpc.Channel):
    assert catch_status(lambda: send_raw(channel, "Nothing", b"")).code() is grpc.StatusCode.UNIMPLEMENTED


def test_a_message_above_the_limit_of_the_server_is_a_limit_error(small_server: ServerProcess):
    with Client(small_server.address) as client, pytest.raises(LimitError) as caught:
        client.static_reshape(np.zeros(1025, np.float32), [-1], special_zero=False)
    assert caught.value.reason == Reason.MESSAGE_TOO_LARGE


async def test_a_message_above_the_limit_is_the_same_error_for_asyncio(small_server: ServerProcess):
    async with AsyncClient(small_server.address) as client:
        with pytest.raises(LimitError) as caught:
            await client.static_reshape(np.zeros(1025, np.float32), [-1], special_zero=False)
    assert caught.value.reason == Reason.MESSAGE_TOO_LARGE


def test_a_message_above_the_limit_ends_with_resource_exhausted(small_server: ServerProcess):
    with grpc.insecure_channel(small_server.address) as channel:
        status = catch_status(lambda: send_raw(channel, "StaticReshape", bytes(4097)))
    assert status.code() is grpc.StatusCode.RESOURCE_EXHAUSTED


def test_a_message_below_the_limit_is_served_after_one_above_it(small_server: ServerProcess):
    with Client(small_server.address) as client:
        with pytest.raises(LimitError):
            client.static_reshape(np.zeros(1025, np.float32), [-1], special_zero=False)
        assert client.static_reshape(np.zeros(1000, np.float32), [-1], special_zero=False).shape == (1000,)


def test_a_broadcast_output_of_exactly_the_limit_is_served(small_server: ServerProcess):
    array = np.broadcast_to(np.float32(1), (1024,))
    with Client(small_server.address) as client:
        assert client.static_reshape(array, [-1], special_zero=False).nbytes == 4096


def test_a_broadcast_output_above_the_limit_is_refused(small_server: ServerProcess):
    array = np.broadcast_to(np.float32(1), (1025,))
    with Client(small_server.address) as client, pytest.raises(LimitError) as caught:
        client.static_reshape(array, [-1], special_zero=False)
    assert caught.value.reason == Reason.OUTPUT_TOO_LARGE


def test_an_array_that_no_message_can_hold_is_refused_before_it_is_sent(client: Client):
    with pytest.raises(LimitError) as caught:
        client.reshape(np.zeros(2**31, np.uint8), [-1], special_zero=False, transfer="inline")
    assert caught.value.reason == Reason.MESSAGE_TOO_LARGE


def test_a_bug_of_the_server_is_an_internal_error_with_a_constant_text():
    with (
        run_runner(backend=Breaks()) as runner,
        Client(runner.addresses[0]) as client,
        pytest.raises(InternalServerError) as caught,
    ):
        client.static_reshape(SIX, [6], special_zero=False)
    assert (caught.value.code, caught.value.message) == (grpc.StatusCode.INTERNAL, "internal error")


def test_a_bug_of_the_server_is_in_its_log_with_the_traceback(caplog: pytest.LogCaptureFixture):
    with (
        run_runner(backend=Breaks()) as runner,
        Client(runner.addresses[0]) as client,
        pytest.raises(InternalServerError),
    ):
        client.static_reshape(SIX, [6], special_zero=False)
    (record,) = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert "RuntimeError: secret" in (record.exc_text or logging.Formatter().format(record))


def test_the_call_after_a_bug_is_served():
    with run_runner(backend=Breaks()) as runner, Client(runner.addresses[0]) as client:
        with pytest.raises(InternalServerError):
            client.static_reshape(SIX, [6], special_zero=False)
        assert client.static_reshape(SIX, [6], special_zero=False).tolist() == SIX.tolist()
