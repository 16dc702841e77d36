"""A worker: one of the processes that serve the same ports for a supervisor. What passes between them is in `messages`.

- It reads its order from standard input, serves, and sends heartbeats as long as it does.
- It stops gracefully at SIGTERM, and when the supervisor is gone; then it ends itself if that takes too long.
- It ends at once, with a REFUSAL, where it cannot serve what was ordered.
"""

import logging
import os
import pickle
import select
import signal
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial

from tensor_reshape.server.config import STOP_SIGNALS, ConfigError
from tensor_reshape.server.counted_methods import list_methods
from tensor_reshape.server.grpc_core.probes import find_obstacle
from tensor_reshape.server.metrics.shared_counters import SharedCounters
from tensor_reshape.server.process.logs import configure_logs
from tensor_reshape.server.process.signals import catch_signals, ignore_signals
from tensor_reshape.server.runner import Runner, stop
from tensor_reshape.server.service.backend import import_gather
from tensor_reshape.server.workers.messages import BEAT, LEAVING, MAX_MESSAGE_BYTES, OBSTACLE, REFUSAL, Order

_STDIN = 0


def work(messages: int) -> None:
    """Serves as ordered, until it is told to stop or nobody is left to tell it.

    Args:
        messages: the descriptor of the pipe that the supervisor reads.
    """
    os.set_blocking(messages, False)  # nothing in this process waits for the supervisor
    send = partial(_send, messages)
    with open(_STDIN, "rb", buffering=0, closefd=False) as orders:  # unbuffered and left open: HURRY may follow
        order: Order = pickle.load(orders)  # noqa: S301 - the supervisor's own bytes
    configure_logs(order.config.log_format, order.config.log_level)
    _label_records(order.number)
    try:
        _serve(order, send)
    except ConfigError as error:
        send(REFUSAL + str(error).encode()[: MAX_MESSAGE_BYTES - len(REFUSAL)])
        sys.exit(1)


def _serve(order: Order, send: Callable[[bytes], None]) -> None:
    # A service manager may signal every process of the service, some of them twice (SIGTERM, then SIGHUP), and the
    # supervisor passes on that it is to stop. So only SIGTERM stops a worker, and no second signal means hurry here, as
    # it does to a server without workers: HURRY does.
    ignore_signals({*STOP_SIGNALS} - {signal.SIGTERM})
    with catch_signals((signal.SIGTERM,)) as signals:
        runner = Runner(order.config, shares_ports=True)
        if order.counters is not None:
            runner.count_into(SharedCounters(list_methods(), order.counters))
        import_gather()  # now, while nobody waits for this process: it may replace one of many that serve
        if obstacle := find_obstacle():
            send(OBSTACLE + obstacle.replace("\n", " ").encode()[: MAX_MESSAGE_BYTES - 2] + b"\n")
        runner.beat(partial(send, BEAT))
        runner.start()
        ready, _, _ = select.select([signals, _STDIN], [], [])  # nothing but its end comes before the worker stops
        # Before anything is stopped: from here on the supervisor expects the end instead of heartbeats.
        send(LEAVING)
        cause = "SIGTERM" if signals in ready else "no supervisor"
        stop(runner, cause, partial(_follow_supervisor, order.stop_seconds))
    ignore_signals(STOP_SIGNALS)  # the supervisor passes on each that it gets


def _follow_supervisor(stop_seconds: float, hurry: threading.Event) -> None:
    """Passes HURRY on. When the supervisor is gone, ends a worker that does not stop in time."""
    while os.read(_STDIN, 1):
        hurry.set()
    time.sleep(stop_seconds)
    os._exit(1)  # not sys.exit, which ends only this thread; the supervisor would have sent SIGKILL by now


def _send(messages: int, message: bytes) -> None:
    # The supervisor is gone, which `_follow_supervisor` sees; or it is suspended, and the pipe is full.
    with suppress(BrokenPipeError, BlockingIOError):
        os.write(messages, message)


def _label_records(number: int) -> None:
    """Adds the worker's number to every record: the workers of a server share its standard error."""
    make_record = logging.getLogRecordFactory()

    def make_labelled(*args: object, **kwargs: object) -> logging.LogRecord:
        record = make_record(*args, **kwargs)
        record.worker = number
        return record

    logging.setLogRecordFactory(make_labelled)


if __name__ == "__main__":
    work(int(sys.argv[1]))
