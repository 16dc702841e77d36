"""What is wrong before or beneath the rules: bytes, sizes, names, and bugs of the server."""

import logging

import grpc
import numpy as np
import pytest

from in_process import run_runner
from plain_requests import INFER, INFERRED
from remote_refusals import catch_local, catch_remote, catch_status, describe, send_raw
from server_processes import ServerProcess
from tensor_reshape.client import Client, InternalServerError, InvalidRequestError, LimitError, Reason
from tensor_reshape.rules.limits import Limits
from tensor_reshape.wire.tensors import TensorView

SIX = np.arange(6, dtype=np.float32)


def test_malformed_and_empty_messages_are_refused(channel: grpc.Channel):
    for method in ("StaticReshape", "DynamicReshape", "Reshape", "InferShape"):
        for raw in (b"\xff", b"\x7a\x05\x08", b"\x0b" * 200):
            error = catch_remote(lambda: send_raw(channel, method, raw))  # noqa: B023 - called at once
            assert describe(error) == (InvalidRequestError, Reason.MESSAGE_MALFORMED, "", {})
        missing = Reason.OPERATION_UNSPECIFIED if method == "InferShape" else Reason.FIELD_MISSING
        assert describe(catch_remote(lambda: send_raw(channel, method, b"")))[1] == missing  # noqa: B023 - as above
    assert send_raw(channel, "InferShape", INFER) == INFERRED


def test_an_unknown_method_is_unimplemented(channel: grpc.Channel):
    assert catch_status(lambda: send_raw(channel, "Nothing", b"")).code() is grpc.StatusCode.UNIMPLEMENTED


def test_a_message_above_the_limit_of_the_server_is_refused(small_server: ServerProcess):
    with grpc.insecure_channel(small_server.address) as channel:
        status = catch_status(lambda: send_raw(channel, "StaticReshape", bytes(4097)))
        assert status.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert send_raw(channel, "InferShape", INFER) == INFERRED


def test_a_broadcast_output_is_served_up_to_the_limit(small_server: ServerProcess):
    with Client(small_server.address) as client:
        array = np.broadcast_to(np.float32(1), (1024,))
        assert client.static_reshape(array, [-1], special_zero=False).nbytes == 4096
        array = np.broadcast_to(np.float32(1), (1025,))
        error = catch_local(lambda: client.static_reshape(array, [-1], special_zero=False))
    assert (type(error), error.reason) == (LimitError, Reason.OUTPUT_TOO_LARGE)


def test_an_array_that_no_message_holds_is_not_sent(client: Client):
    array = np.zeros(2**31, np.uint8)  # pages that are not written to take no memory
    error = catch_local(lambda: client.reshape(array, [-1], special_zero=False, transfer="inline"))
    assert (type(error), error.reason) == (LimitError, Reason.MESSAGE_TOO_LARGE)


def test_a_bug_is_an_internal_error_with_a_logged_traceback(caplog: pytest.LogCaptureFixture):
    bugs = [RuntimeError("secret")]

    def reshape(data: TensorView, dims: tuple[int, ...], limits: Limits) -> TensorView:
        del limits
        while bugs:
            raise bugs.pop()
        return TensorView(data.data_type, dims, None, data.payload)

    with run_runner(backend=reshape) as runner, Client(runner.addresses[0]) as client:
        with pytest.raises(InternalServerError) as caught:
            client.static_reshape(SIX, [6], special_zero=False)
        assert (caught.value.code, caught.value.message) == (grpc.StatusCode.INTERNAL, "internal error")
        assert client.static_reshape(SIX, [6], special_zero=False).tolist() == SIX.tolist()
    (record,) = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert "RuntimeError: secret" in (record.exc_text or logging.Formatter().format(record))
