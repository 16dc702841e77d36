"""Which way of serving is chosen, and that it is the one that serves."""

import logging
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import grpc
import numpy as np
import pytest
from grpc import _server
from grpc._cython import cygrpc  # type: ignore[attr-defined] # compiled, without types

from in_process import ANY_PORT, run_runner
from raw_streams import SIX, begin, chunk, open_stream
from tensor_reshape.client import Client
from tensor_reshape.server.calls import inline
from tensor_reshape.server.calls.inline import InlinePool, is_supported
from tensor_reshape.server.config import Config, ConfigError
from tensor_reshape.server.runner import Runner

QUICK = {"listen": (ANY_PORT,), "drain_seconds": 0, "grace_seconds": 0}
STREAMS = 12


def configure(serving: str) -> Config:
    return Config(serving=serving, **QUICK)  # type: ignore[arg-type]


@pytest.fixture
def unsupported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inline, "is_supported", lambda: False)


def count_threads_of_streams(address: str) -> int:
    """Opens streams that rest, and counts the threads of this process that calls hold."""
    with ExitStack() as stack:
        channel = stack.enter_context(grpc.insecure_channel(address))
        for _ in range(STREAMS):
            stack.enter_context(open_stream(channel, begin())).accept()
        return sum(thread.name.startswith(("receive", "wrapped")) for thread in threading.enumerate())


def check_calls(address: str) -> None:
    with Client(address) as client:
        for way in ("inline", "stream"):
            output = client.reshape(np.arange(6), [2, 3], special_zero=False, transfer=way)
            assert output.tolist() == [[0, 1, 2], [3, 4, 5]]


def test_the_installed_grpcio_is_supported():
    assert is_supported()


def test_an_inline_server_has_no_thread_for_a_stream():
    with run_runner(configure("inline")) as runner:
        assert count_threads_of_streams(runner.addresses[0]) == 0


def test_a_threaded_server_has_threads_for_every_stream():
    with run_runner(configure("threads")) as runner:
        assert count_threads_of_streams(runner.addresses[0]) >= STREAMS


@pytest.mark.usefixtures("unsupported")
def test_auto_serves_with_threads_where_inline_is_not_possible(caplog: pytest.LogCaptureFixture):
    with run_runner(configure("auto")) as runner:
        check_calls(runner.addresses[0])
        assert count_threads_of_streams(runner.addresses[0]) >= STREAMS
    (record,) = [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert (record.levelno, record.message) == (logging.WARNING, f"grpcio {grpc.__version__} cannot serve inline")


@pytest.mark.usefixtures("unsupported")
def test_inline_is_refused_where_it_is_not_possible():
    with pytest.raises(ConfigError, match="inline"):
        Runner(configure("inline"))


@pytest.mark.usefixtures("unsupported")
def test_threads_need_nothing_of_what_inline_needs(caplog: pytest.LogCaptureFixture):
    with run_runner(configure("threads")) as runner:
        check_calls(runner.addresses[0])
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


@pytest.mark.parametrize(
    ("place", "name"),
    [
        (_server, "_RPCState"),
        (_server, "_unary_response_in_pool"),
        (_server, "_stream_response_in_pool"),
        (_server, "_possibly_finish_call"),
        (_server, "_is_rpc_state_active"),
        (cygrpc, "ReceiveMessageOperation"),
        (cygrpc, "SendStatusFromServerOperation"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_grpcio_without_one_of_the_parts_is_not_supported(place: object, name: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delattr(place, name)
    assert not is_supported()


@pytest.mark.parametrize("name", ["_unary_response_in_pool", "_possibly_finish_call", "_is_rpc_state_active"])
def test_a_grpcio_with_a_part_of_another_form_is_not_supported(name: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(_server, name, lambda other: other)
    assert not is_supported()


def test_a_grpcio_whose_calls_have_another_state_is_not_supported(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(_server, "_RPCState", object)
    assert not is_supported()


def test_a_call_that_is_not_recognized_is_served_by_a_thread(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(InlinePool, "submit", ThreadPoolExecutor.submit)
    with run_runner(configure("inline")) as runner:
        check_calls(runner.addresses[0])
        with grpc.insecure_channel(runner.addresses[0]) as channel, open_stream(channel, begin()) as stream:
            stream.accept()
            stream.send(chunk(0, SIX))
            assert stream.receive(6) == SIX
            stream.finish()
    assert runner._admission.used_bytes == 0
