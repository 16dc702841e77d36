"""A worker process, which serves the same ports as the other workers of a supervisor (see `messages`).

- A worker reads its configuration (`Order`) from standard input, serves calls, and sends heartbeats while it serves.
- A worker stops gracefully at SIGTERM and when the supervisor has ended. If the supervisor has ended and stopping takes
  too long, the worker exits at once.
- A worker that cannot serve sends a REJECTION message to the supervisor and exits.
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
from typing import TYPE_CHECKING

from tensor_reshape.runtime.lazy_imports import describe_missing
from tensor_reshape.server.config import STOP_SIGNALS, ConfigError
from tensor_reshape.server.counted_methods import list_methods
from tensor_reshape.server.metrics.shared_counters import SharedCounters
from tensor_reshape.server.process.logs import configure_logs
from tensor_reshape.server.process.signals import catch_signals, ignore_signals
from tensor_reshape.server.process.stops import stop
from tensor_reshape.server.workers.messages import BEAT, LEAVING, MAX_MESSAGE_BYTES, REJECTION, Order

if TYPE_CHECKING:
    from tensor_reshape.server.http.servers import HttpServer
    from tensor_reshape.server.runner import Runner

_STDIN = 0


def work(messages: int) -> None:
    """Serves until SIGTERM or the end of the supervisor.

    Args:
        messages: the descriptor of the pipe to the supervisor.
    """
    os.set_blocking(messages, False)  # a worker must never wait for the supervisor
    send = partial(_send, messages)
    # The first message on standard input is the worker's configuration (`Order`). Standard input is unbuffered and
    # stays open, because the supervisor may later send another message (HURRY), which ends running calls.
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
    # SIGTERM stops a worker, and the worker ignores other stop signals such as SIGINT and SIGHUP. In contrast to a
    # server without workers, a second SIGTERM has no effect on a worker. A service manager may send SIGTERM and SIGHUP
    # to all processes, in addition to the SIGTERM that the supervisor sends. If the supervisor receives a second stop
    # signal, it sends the message HURRY to the workers, which then end running calls.
    ignore_signals({*STOP_SIGNALS} - {signal.SIGTERM})
    with catch_signals((signal.SIGTERM,)) as signals:
        counters = None if order.counters is None else SharedCounters(list_methods(), order.counters)
        runner = _build_http(order, counters) if order.serves_http else _build_grpc(order, counters)
        runner.beat(partial(send, BEAT))
        runner.start()
        # The supervisor sends its second message (HURRY) only after a stop signal. If standard input becomes readable
        # before such a signal, the supervisor has therefore ended.
        ready, _, _ = select.select([signals, _STDIN], [], [])
        # After the worker has sent the message LEAVING, the supervisor waits for the end of the worker and no longer
        # for heartbeats.
        send(LEAVING)
        cause = "SIGTERM" if signals in ready else "the supervisor has ended"
        stop(runner, cause, partial(_watch_supervisor, order.stop_seconds))
    ignore_signals(STOP_SIGNALS)  # the supervisor may send further signals to the worker


def _build_grpc(order: Order, counters: SharedCounters | None) -> "Runner":
    from tensor_reshape.server.runner import Runner  # noqa: PLC0415 - imports grpc

    runner = Runner(order.config, shares_ports=True)
    if counters is not None:
        runner.count_into(counters)
    return runner


def _build_http(order: Order, counters: SharedCounters | None) -> "HttpServer":
    try:
        from tensor_reshape.server.http.servers import HttpServer  # noqa: PLC0415 - an optional extra
    except ImportError as error:
        raise ConfigError(describe_missing("--http-listen", "http", error)) from error
    return HttpServer(order.config, counters=counters, shares_ports=True)


def _watch_supervisor(stop_seconds: float, hurry: threading.Event) -> None:
    """Sets `hurry` when the message HURRY arrives.

    If the supervisor has ended, ends this process after `stop_seconds`.
    """
    while os.read(_STDIN, 1):
        hurry.set()
    time.sleep(stop_seconds)
    os._exit(1)  # `sys.exit` would instead end only this thread


def _send(messages: int, message: bytes) -> None:
    # Both errors are ignored. Writing to the pipe fails if the supervisor has ended, which `_watch_supervisor` detects,
    # or if the supervisor is suspended and the pipe is full.
    with suppress(BrokenPipeError, BlockingIOError):
        os.write(messages, message)


def _label_records(number: int) -> None:
    """Adds the number of the worker to every log record, because all workers write to the same stderr."""
    make_record = logging.getLogRecordFactory()

    def make_labelled(*args: object, **kwargs: object) -> logging.LogRecord:
        record = make_record(*args, **kwargs)
        record.worker = number
        return record

    logging.setLogRecordFactory(make_labelled)


if __name__ == "__main__":
    work(int(sys.argv[1]))
