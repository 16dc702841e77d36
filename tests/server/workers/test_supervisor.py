"""The supervisor with short programs as workers. The test advances the clock. `e2e/test_workers` has real workers."""

import logging
import os
import select
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

import pytest

from meters import count_descriptors
from tensor_reshape.server.config import STOP_SIGNALS, Config, ConfigError
from tensor_reshape.server.workers.supervisor import (
    HANG_SECONDS,
    MAX_DELAY_SECONDS,
    STABLE_SECONDS,
    START_SECONDS,
    STOP_MARGIN_SECONDS,
    Worker,
    run,
)
from waits import await_that

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="workers share a port, which takes Linux")

CONFIG = Config(drain_seconds=1, shutdown_grace_seconds=8)
STOP_SECONDS = 1 + 8 + STOP_MARGIN_SECONDS
MOMENT = 0.01

BEAT = r"printf '\0' >&0; "  # the socket to the supervisor is standard input
SLEEP = "exec sleep 600"
DEAF = "trap '' TERM; " + BEAT + "while :; do sleep 600; done"
REJECT = "printf junk >&0"
LEAVE = """
import socket, time
supervisor = socket.socket(fileno=0)
supervisor.send(bytes(1))
supervisor.shutdown(socket.SHUT_WR)
time.sleep(600)
"""


@contextmanager
def start(program: str, *, shell: tuple[str, ...] = ("sh", "-c")) -> Iterator[Worker]:
    """Starts a worker at the time 0."""
    with closing(Worker(1, CONFIG, (*shell, program))) as worker:
        worker.advance(0)
        yield worker


def await_message(worker: Worker) -> None:
    assert select.select([worker._channel], [], [], 60)[0]


def await_serving(worker: Worker) -> None:
    await_message(worker)
    worker.advance(0)
    assert worker.serves


def await_end(worker: Worker, now: float) -> None:
    await_that(lambda: worker.advance(now))


def check_kill(worker: Worker, due: float) -> None:
    """Checks that the process is killed at this time, and not earlier."""
    pid = worker.pid
    worker.advance(due - MOMENT)
    assert worker.pid == pid
    assert not is_killed(worker)
    worker.advance(due)
    await_end(worker, due)


def is_killed(worker: Worker) -> bool:
    assert worker.pid is not None
    return os.waitid(os.P_PID, worker.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is not None


def test_serving_worker_without_heartbeats_is_killed():
    with start(BEAT + SLEEP) as worker:
        await_serving(worker)
        check_kill(worker, HANG_SECONDS)
        assert (worker.serves, worker.hangs) == (False, 1)


def test_heartbeat_that_is_read_late_counts():
    with start(BEAT + SLEEP) as worker:
        await_message(worker)
        worker.advance(2 * START_SECONDS)
        assert worker.serves


def test_worker_that_hangs_at_its_start_is_killed():
    with start(SLEEP) as worker:
        check_kill(worker, START_SECONDS)
        assert worker.hangs == 0


def test_worker_that_stops_by_itself_has_the_time_for_a_stop():
    with start(LEAVE, shell=(sys.executable, "-c")) as worker:
        await_serving(worker)
        await_message(worker)  # the end of its side of the socket
        worker.advance(HANG_SECONDS - MOMENT)
        assert not worker.serves
        check_kill(worker, HANG_SECONDS - MOMENT + STOP_SECONDS)


def test_heartbeats_do_not_delay_a_kill_after_a_second_signal():
    with start("trap '' TERM; while :; do " + BEAT + "sleep 0.01; done") as worker:
        await_serving(worker)
        worker.stop(1, hurries=False)
        worker.stop(2, hurries=True)
        await_message(worker)
        check_kill(worker, 2 + STOP_MARGIN_SECONDS)


def test_worker_stopped_before_its_first_heartbeat_has_time_to_stop():
    with start(DEAF) as worker:
        await_message(worker)
        worker.stop(1, hurries=False)
        check_kill(worker, 1 + STOP_SECONDS)


def test_end_of_a_worker_is_an_error_unless_the_server_stops(caplog: pytest.LogCaptureFixture):
    with caplog.at_level(logging.INFO):
        for is_stopped in (False, True):
            with start(BEAT + SLEEP) as worker:
                await_serving(worker)
                assert worker.pid is not None
                worker.stop(0, hurries=False) if is_stopped else os.kill(worker.pid, signal.SIGTERM)
                await_end(worker, 0)
    levels = [record.levelno for record in caplog.records if record.message == "worker ended"]
    assert levels == [logging.ERROR, logging.INFO]


def test_early_ends_of_workers_increase_the_delay_before_a_start():
    with start("exit 1") as worker:
        delays, now = [0.0, 0.5, 1.5, 3.5, 7.5, MAX_DELAY_SECONDS, MAX_DELAY_SECONDS], 0.0
        for starts, delay in enumerate(delays, 1):
            await_end(worker, now)
            worker.advance(now + delay - MOMENT)
            assert worker.starts == starts
            now += delay
            worker.advance(now)
            assert worker.starts == starts + 1
        await_end(worker, now + STABLE_SECONDS)  # it has not ended early
        worker.advance(now + STABLE_SECONDS)
        assert worker.pid is not None


def test_failed_start_is_repeated_and_closes_all_descriptors():
    before = count_descriptors(os.getpid())
    with closing(Worker(1, CONFIG, ("/nowhere",))) as worker:
        for now in (0, 0, 0.5):
            assert not worker.advance(now)
        assert (worker.starts, worker.pid) == (3, None)
    assert count_descriptors(os.getpid()) == before


@contextmanager
def restored_signals() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in (*STOP_SIGNALS, signal.SIGCHLD)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def supervise(*programs: str, announce: Callable[[list[Worker]], None] = lambda _: None) -> None:
    with restored_signals(), ExitStack() as stack:
        workers = [
            stack.enter_context(closing(Worker(number, CONFIG, ("sh", "-c", program))))
            for number, program in enumerate(programs, 1)
        ]
        run(workers, lambda: announce(workers))


def kill_first(workers: list[Worker]) -> None:
    assert workers[0].pid is not None
    os.kill(workers[0].pid, signal.SIGKILL)


def serve_once(folder: Path) -> str:
    """A program that serves at its first run, and is rejected later."""
    return f"if mkdir {folder}/served; then {BEAT}{SLEEP}; else {REJECT}; fi"


def test_supervisor_reports_why_no_worker_starts():
    with pytest.raises(ConfigError, match=r"^junk$"):
        supervise(REJECT, REJECT)


def test_supervisor_ends_if_a_worker_ends_during_the_start():
    with pytest.raises(ConfigError, match="a worker ended during the start"):
        supervise(BEAT + SLEEP, "exit 1")


def test_supervisor_ends_if_the_last_serving_worker_cannot_start_again(tmp_path: Path):
    with pytest.raises(ConfigError, match=r"^junk$"):
        supervise(serve_once(tmp_path), announce=kill_first)


def test_rejected_worker_is_only_logged_while_another_serves(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    reasons = []

    def stop(record: logging.LogRecord) -> bool:
        if record.getMessage() == "worker cannot be started":
            reasons.append(vars(record)["reason"])
            os.kill(os.getpid(), signal.SIGTERM)
        return True

    caplog.handler.addFilter(stop)
    supervise(serve_once(tmp_path), BEAT + SLEEP, announce=kill_first)
    assert reasons == ["junk"]


def test_supervisor_looks_at_serving_workers_about_once_a_second(monkeypatch: pytest.MonkeyPatch):
    looks: list[float] = []
    advance = Worker.advance

    def count(worker: Worker, now: float) -> bool:
        looks.append(now)
        return advance(worker, now)

    def stop_later(_workers: list[Worker]) -> None:
        looks.clear()
        threading.Timer(1.5, os.kill, (os.getpid(), signal.SIGTERM)).start()

    monkeypatch.setattr(Worker, "advance", count)
    supervise("while :; do " + BEAT + "sleep 0.05; done", announce=stop_later)
    assert len(looks) <= 6


def test_time_before_a_signal_does_not_shorten_the_stop(monkeypatch: pytest.MonkeyPatch):
    times: list[tuple[float, float]] = []
    advance, stop = Worker.advance, Worker.stop

    def record_advance(worker: Worker, now: float) -> bool:
        times.append((now, time.monotonic()))
        return advance(worker, now)

    def record_stop(worker: Worker, now: float, *, hurries: bool) -> None:
        times.append((now, time.monotonic()))
        monkeypatch.setattr(Worker, "advance", advance)
        stop(worker, now, hurries=hurries)

    monkeypatch.setattr(Worker, "advance", record_advance)
    monkeypatch.setattr(Worker, "stop", record_stop)
    supervise(BEAT + SLEEP, announce=lambda _: threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGTERM)).start())
    (before, looked_at), (now, stopped_at) = times[-2:]
    assert now - before >= 0.9 * (stopped_at - looked_at)


def test_supervisor_replaces_a_killed_worker_at_once(caplog: pytest.LogCaptureFixture):
    killed_at: list[float] = []
    took: list[float] = []

    def kill(workers: list[Worker]) -> None:
        killed_at.append(time.monotonic())
        kill_first(workers)

    def stop(record: logging.LogRecord) -> bool:
        if record.getMessage() == "worker ended" and not took:
            took.append(time.monotonic() - killed_at[0])
            os.kill(os.getpid(), signal.SIGTERM)
        return True

    caplog.handler.addFilter(stop)
    supervise(BEAT + SLEEP, BEAT + SLEEP, announce=kill)
    assert took[0] < 0.9  # a look at the heartbeats would be a second later
