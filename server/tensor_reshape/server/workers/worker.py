"""A worker process, which shares the ports with the other workers (see `supervisor`)."""

import logging
import pickle
import select
import signal
import socket
import sys
import threading
from contextlib import suppress
from typing import TYPE_CHECKING

from tensor_reshape.server.config import STOP_SIGNALS, Config, ConfigError
from tensor_reshape.server.http import import_server
from tensor_reshape.server.process.logs import configure_logs
from tensor_reshape.server.process.signals import catch_signals, ignore_signals, stop
from tensor_reshape.server.telemetry.metrics import SharedCounters, list_methods
from tensor_reshape.server.workers.supervisor import BEAT

if TYPE_CHECKING:
    from tensor_reshape.server.http.servers import HttpServer
    from tensor_reshape.server.runner import Runner


def work(supervisor: socket.socket) -> None:
    """Serves until SIGTERM arrives or the supervisor ends. The socket connects this process with the supervisor."""
    # Without a buffer, later messages stay in the socket.
    with supervisor.makefile("rb", buffering=0) as source:
        number, config, descriptor, stop_seconds = pickle.load(source)  # noqa: S301 - from the supervisor
    # The supervisor sends SIGTERM. A service manager may also send SIGTERM and SIGHUP to all processes.
    ignore_signals({*STOP_SIGNALS} - {signal.SIGTERM})
    configure_logs(config.log_format, config.log_level)
    make_record = logging.getLogRecordFactory()

    def make_labelled(*args: object, **kwargs: object) -> logging.LogRecord:
        record = make_record(*args, **kwargs)
        record.worker = number  # the records need the number, because all workers write to the same stderr
        return record

    logging.setLogRecordFactory(make_labelled)
    try:
        counters = None if descriptor is None else SharedCounters(list_methods(), descriptor)
        _serve(supervisor, _build_server(config, counters), stop_seconds)
    except ConfigError as error:
        with suppress(OSError):  # `sendall` fails if the supervisor has ended
            supervisor.sendall(str(error).encode())
        sys.exit(1)


def _serve(supervisor: socket.socket, server: "HttpServer | Runner", stop_seconds: float) -> None:
    def beat() -> None:
        # `send` fails if the supervisor has ended, if it is suspended and the socket is full, or if this worker is
        # stopping.
        with suppress(OSError):
            supervisor.send(BEAT, socket.MSG_DONTWAIT)

    def await_hurry(hurry: threading.Event) -> None:
        with suppress(OSError):  # `recv` fails if the supervisor has ended without reading the last heartbeat
            while supervisor.recv(1):
                hurry.set()
        # The supervisor has ended. If this worker does not stop in time, the signal SIGALRM ends it.
        signal.setitimer(signal.ITIMER_REAL, stop_seconds)

    with catch_signals((signal.SIGTERM,)) as signals:
        server.beat(beat)
        server.start()
        # Only a stopping worker receives a message. This worker is not stopping yet, so if the socket becomes readable,
        # the supervisor has ended.
        ready, _, _ = select.select([signals, supervisor.fileno()], [], [])
        supervisor.shutdown(socket.SHUT_WR)  # from now on, the supervisor expects no heartbeats
        stop(server.stop, "SIGTERM" if signals in ready else "the supervisor has ended", await_hurry)
    ignore_signals(STOP_SIGNALS)  # further stop signals must not interrupt the end of this process


def _build_server(config: Config, counters: SharedCounters | None) -> "HttpServer | Runner":
    if config.http_listen is not None:
        return import_server()(config, counters=counters, shares_ports=True)
    from tensor_reshape.server.runner import Runner  # noqa: PLC0415 - imports grpc

    return Runner(config, counters=counters, shares_ports=True)


if __name__ == "__main__":
    with socket.socket(fileno=0) as standard_input:
        work(standard_input)
