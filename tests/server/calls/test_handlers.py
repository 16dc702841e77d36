"""Which way of serving is chosen, and that it is the one that serves."""

import logging
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace

import grpc
import numpy as np
import pytest

from in_process import ANY_PORT, WAIT_SECONDS, hurry_stop, run_runner
from inference_requests import build_question
from raw_streams import SIX, begin, chunk, open_stream
from strangers import retry
from tensor_reshape.client import Client, ShapeQuery
from tensor_reshape.rules.limits import LIGHT_HEADER_BYTES
from tensor_reshape.server.calls import core_calls
from tensor_reshape.server.calls.fair_locks import FairLock
from tensor_reshape.server.calls.inline import InlinePool
from tensor_reshape.server.calls.threaded import QUESTION_THREADS
from tensor_reshape.server.config import Config, ConfigError
from tensor_reshape.server.oip.messages import find_path
from tensor_reshape.server.runner import Runner
from tensor_reshape.server.service.methods import LIGHT_BYTES, ReshapeService
from tensor_reshape.server.settings.bounds import MIN_MESSAGE_BYTES

QUICK = {"listen": (ANY_PORT,), "drain_seconds": 0, "grace_seconds": 0}
STREAMS = 12
LARGE = np.zeros(LIGHT_BYTES + 1, np.uint8)
ASKED = build_question([0], "[0]", id="x" * LIGHT_HEADER_BYTES).SerializeToString()  # so long that a thread reads it
SEARCHED = ShapeQuery(data_shape=[(0, 9), (0, 9)], shape=[None, 7, (2, 5)], special_zero=True)


def configure(serving: str) -> Config:
    return Config(serving=serving, **QUICK)  # type: ignore[arg-type]


@pytest.fixture
def unsupported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(core_calls, "is_supported", lambda: False)


@pytest.fixture
def threads() -> set[threading.Thread]:
    """The threads that there were before the test: a server that has stopped may have left some."""
    return set(threading.enumerate())


def count_threads_of_streams(address: str, before: set[threading.Thread]) -> int:
    """Opens streams that rest, and counts the new threads of this process that calls hold."""
    with ExitStack() as stack:
        channel = stack.enter_context(grpc.insecure_channel(address))
        for _ in range(STREAMS):
            stack.enter_context(open_stream(channel, begin())).accept()
        new = set(threading.enumerate()) - before
        return sum(thread.name.startswith(("receive", "wrapped")) for thread in new)


def check_calls(address: str) -> None:
    with Client(address) as client:
        for way in ("inline", "stream"):
            output = client.reshape(np.arange(6), [2, 3], special_zero=False, transfer=way)
            assert output.tolist() == [[0, 1, 2], [3, 4, 5]]


def test_an_inline_server_has_no_thread_for_a_stream(threads: set[threading.Thread]):
    with run_runner(configure("inline")) as runner:
        assert count_threads_of_streams(runner.addresses[0], threads) == 0


def test_a_threaded_server_has_threads_for_every_stream(threads: set[threading.Thread]):
    with run_runner(configure("threads")) as runner:
        assert count_threads_of_streams(runner.addresses[0], threads) >= STREAMS


@pytest.mark.parametrize("serving", ["inline", "threads"])
def test_a_question_is_searched_while_batches_hold_all_their_threads(serving: str):
    locks = [FairLock(), FairLock()]
    config = replace(configure(serving), max_message_bytes=MIN_MESSAGE_BYTES)  # so that there is room for all of them
    runner = Runner(config, ReshapeService(config.limits, make_turns=iter(locks).__next__))
    runner.start()
    try:
        with Client(runner.addresses[0], timeout=WAIT_SECONDS) as client, ThreadPoolExecutor(64) as threads:
            with locks[1]:
                batches = [threads.submit(client.infer_shapes, [SEARCHED]) for _ in range(2 * QUESTION_THREADS)]
                assert retry(lambda: len(locks[1]._waiting) >= QUESTION_THREADS)
                alone = client.infer_shape(SEARCHED.data_shape, SEARCHED.shape, special_zero=True)
            assert [batch.result() for batch in batches] == [[alone]] * len(batches)
    finally:
        hurry_stop(runner)


@pytest.mark.parametrize("serving", ["inline", "threads"])
@pytest.mark.parametrize("method", ["ModelInfer", "ModelStreamInfer"])
def test_a_tensor_is_reshaped_while_questions_of_the_other_protocol_hold_all_their_threads(serving: str, method: str):
    turns = FairLock()
    config = replace(configure(serving), threads=1, max_message_bytes=2 * LIGHT_BYTES)
    runner = Runner(config, ReshapeService(config.limits, make_turns=iter((turns, FairLock())).__next__))
    runner.start()
    try:
        with Client(runner.addresses[0], timeout=WAIT_SECONDS) as client, ExitStack() as stack:
            channel = stack.enter_context(grpc.insecure_channel(runner.addresses[0]))
            ask: grpc.StreamStreamMultiCallable[bytes, bytes] = channel.stream_stream(find_path(method))
            with turns:
                answers = [ask(iter([ASKED]), timeout=WAIT_SECONDS) for _ in range(2 * QUESTION_THREADS)]
                assert retry(lambda: len(turns._waiting) >= QUESTION_THREADS)
                assert client.reshape(LARGE, [-1], special_zero=False, transfer="inline").size == LARGE.size
            assert [len(list(answer)) for answer in answers] == [1] * len(answers)
    finally:
        hurry_stop(runner)


@pytest.mark.usefixtures("unsupported")
def test_auto_serves_with_threads_where_inline_is_not_possible(
    threads: set[threading.Thread], caplog: pytest.LogCaptureFixture
):
    with run_runner(configure("auto")) as runner:
        check_calls(runner.addresses[0])
        assert count_threads_of_streams(runner.addresses[0], threads) >= STREAMS
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
