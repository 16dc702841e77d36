"""A worker: one of the processes that serve the same ports for a supervisor.

Standard input brings its order, and a byte when it has to hurry; the end of it says that the supervisor is gone. On
standard output it tells, a byte each, that it serves and that it is leaving, or why it cannot be started.
"""

import logging
import os
import pickle
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from queue import SimpleQueue

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from tensor_reshape.server.config import Config, ConfigError
from tensor_reshape.server.logs import configure_logs
from tensor_reshape.server.runner import Causes, Runner, await_cause, stop

BEAT = b"."
LEAVING = b"-"
REFUSAL = b"!"
"""Its message follows, up to the end."""

HURRY = b"h"
STOP_MARGIN_SECONDS = 2.0
"""How long a worker may take to end, besides draining and the grace."""

_BEAT_SECONDS = 0.5
_RETRY_SECONDS = 0.1
_CHECK_SECONDS = 1.0
_MAX_REFUSAL_BYTES = 4096  # a pipe takes so many at once
_STDIN, _STDOUT = 0, 1
_CHANNEL_OPTIONS = [
    ("grpc.enable_http_proxy", 0),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 200),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What a worker is to do.

    Attributes:
        number: what its log calls it; the first is 1.
        config: what to serve, on addresses that the supervisor holds.
        private_address: where it serves alone, for its own heartbeats.
        log_format: as `configure_logs` takes it.
        log_level: as `configure_logs` takes it.
    """

    number: int
    config: Config
    private_address: str
    log_format: str
    log_level: str

    @property
    def stop_seconds(self) -> float:
        """How long it takes to stop, at most."""
        return self.config.drain_seconds + self.config.grace_seconds + STOP_MARGIN_SECONDS


def work() -> None:
    """Serves as ordered, until it is told to stop or nobody is left to tell it."""
    with open(_STDIN, "rb", buffering=0, closefd=False) as orders:  # more will follow
        order: Order = pickle.load(orders)  # noqa: S301 - the supervisor's own bytes
    configure_logs(order.log_format, order.log_level)
    _label_records(order.number)
    try:
        _serve(order)
    except ConfigError as error:
        _tell(REFUSAL + str(error).encode()[: _MAX_REFUSAL_BYTES - 1])
        sys.exit(1)


def _serve(order: Order) -> None:
    stops: Causes = SimpleQueue()
    hurries: Causes = SimpleQueue()
    # A service manager signals every process, and the supervisor once more: a second signal is no reason to hurry here.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda *_: stops.put("SIGTERM"))
    runner = Runner(order.config, private_address=order.private_address)
    runner.start()
    threading.Thread(target=_obey, args=(stops, hurries, order.stop_seconds), daemon=True).start()
    with _beat(order.private_address):
        cause = await_cause(stops)
        _tell(LEAVING)
        stop(runner, cause, hurries)


def _obey(stops: Causes, hurries: Causes, stop_seconds: float) -> None:
    while os.read(_STDIN, 1):
        hurries.put("supervisor")
    stops.put("no supervisor")
    time.sleep(stop_seconds)
    os._exit(1)  # nobody else would end a worker that hangs


@contextmanager
def _beat(address: str) -> Iterator[None]:
    """Tells twice a second that this process serves: that a call which takes the way of all others is answered."""
    ended = threading.Event()
    channel = grpc.insecure_channel(address, options=_CHANNEL_OPTIONS)
    thread = threading.Thread(target=_keep_beating, args=(channel, ended), name="heartbeat", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        channel.close()
        thread.join()


def _keep_beating(channel: grpc.Channel, ended: threading.Event) -> None:
    check = health_pb2_grpc.HealthStub(channel).Check
    while not ended.is_set():
        try:
            check(health_pb2.HealthCheckRequest(), timeout=_CHECK_SECONDS, wait_for_ready=True)
        except (grpc.RpcError, ValueError):  # the server does not answer, or the channel is closed: silence tells it
            ended.wait(_RETRY_SECONDS)
        else:
            _tell(BEAT)
            ended.wait(_BEAT_SECONDS)


def _tell(message: bytes) -> None:
    with suppress(BrokenPipeError):  # the supervisor is gone, which standard input tells
        os.write(_STDOUT, message)


def _label_records(number: int) -> None:
    make_record = logging.getLogRecordFactory()

    def make_labelled(*args: object, **kwargs: object) -> logging.LogRecord:
        record = make_record(*args, **kwargs)
        record.worker = number
        return record

    logging.setLogRecordFactory(make_labelled)
