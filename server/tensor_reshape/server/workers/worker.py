"""A worker process, which serves the same ports as the other workers of a supervisor (see `messages`).

- A worker reads its order from standard input, serves calls, and sends heartbeats while it serves.
- A worker stops gracefully at SIGTERM and when the supervisor has ended. If the supervisor has ended and stopping takes
  too long, the worker exits at once.
- A worker that cannot serve sends a REJECTION and exits.
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
from tensor_reshape.server.workers.messages import BEAT, LEAVING, MAX_MESSAGE_BYTES, OBSTACLE, REJECTION, Order

_STDIN = 0


def work(messages: int) -> None:
    """Serves until SIGTERM or the end of the supervisor.

    Args:
        messages: the descriptor of the pipe to the supervisor.
    """
    os.set_blocking(messages, False)  # a worker never waits for the supervisor
    send = partial(_send, messages)
    # Standard input is unbuffered and stays open, because HURRY may follow the order.
    with open(_STDIN, "rb", buffering=0, closefd=False) as orders:
        order: Order = pickle.load(orders)  # noqa: S301 - written by the supervisor
    configure_logs(order.config.log_format, order.config.log_level)
    _label_records(order.number)
    try:
        _serve(order, send)
    except ConfigError as error:
        send(REJECTION + str(error).encode()[: MAX_MESSAGE_BYTES - len(REJECTION)])
        sys.exit(1)


def _serve(order: Order, send: Callable[[bytes], None]) -> None:
    # Only SIGTERM stops a worker. A second signal has no effect, unlike in a server without workers, because a service
    # manager may send SIGTERM and SIGHUP to all processes, in addition to the SIGTERM of the supervisor. If the
    # supervisor receives a second signal, the supervisor sends HURRY.
    ignore_signals({*STOP_SIGNALS} - {signal.SIGTERM})
    with catch_signals((signal.SIGTERM,)) as signals:
        runner = Runner(order.config, shares_ports=True)
        if order.counters is not None:
            runner.count_into(SharedCounters(list_methods(), order.counters))
        import_gather()  # before serving, so that the import does not delay calls
        if obstacle := find_obstacle():
            send(OBSTACLE + obstacle.replace("\n", " ").encode()[: MAX_MESSAGE_BYTES - 2] + b"\n")
        runner.beat(partial(send, BEAT))
        runner.start()
        # HURRY never comes before a stop signal, so standard input becomes readable here only when it ends.
        ready, _, _ = select.select([signals, _STDIN], [], [])
        # After this message, the supervisor waits for the end of this process and no longer for heartbeats.
        send(LEAVING)
        cause = "SIGTERM" if signals in ready else "the supervisor has ended"
        stop(runner, cause, partial(_watch_supervisor, order.stop_seconds))
    ignore_signals(STOP_SIGNALS)  # the supervisor may send further signals


def _watch_supervisor(stop_seconds: float, hurry: threading.Event) -> None:
    """Sets `hurry` when HURRY arrives. If the supervisor ends, ends the process after `stop_seconds`."""
    while os.read(_STDIN, 1):
        hurry.set()
    time.sleep(stop_seconds)
    os._exit(1)  # not sys.exit, which would end only this thread


def _send(messages: int, message: bytes) -> None:
    # The write fails if the supervisor has ended, which `_watch_supervisor` detects. The write also fails if the
    # supervisor is suspended and the pipe is full.
    with suppress(BrokenPipeError, BlockingIOError):
        os.write(messages, message)


def _label_records(number: int) -> None:
    """Adds the worker's number to every log record, because all workers write to the same standard error."""
    make_record = logging.getLogRecordFactory()

    def make_labelled(*args: object, **kwargs: object) -> logging.LogRecord:
        record = make_record(*args, **kwargs)
        record.worker = number
        return record

    logging.setLogRecordFactory(make_labelled)


if __name__ == "__main__":
    work(int(sys.argv[1]))
