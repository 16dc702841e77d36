"""A worker: one of the processes that serve the same ports for a supervisor.

Standard input brings its order, and a byte when it has to hurry; the end of it says that the supervisor is gone. By a
pipe of its own it tells, a byte each, that it serves and that it is leaving, or why it cannot be started.
"""

import ctypes
import logging
import os
import pickle
import signal
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from queue import SimpleQueue

from tensor_reshape.server.calls.heartbeats import Heartbeat, run_heartbeat
from tensor_reshape.server.config import Config, ConfigError
from tensor_reshape.server.process.logs import configure_logs
from tensor_reshape.server.runner import Causes, Runner, await_cause, stop

BEAT = b"."
LEAVING = b"-"
REFUSAL = b"!"
"""Its message follows, up to the end."""

HURRY = b"h"
STOP_MARGIN_SECONDS = 3.0
"""How long a worker may take to end, besides draining and the grace: clients are asked to leave for a second."""

_MAX_REFUSAL_BYTES = 4096  # a pipe takes so many at once
_STDIN = 0
_PR_SET_PDEATHSIG = 1  # of Linux, as several workers are


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


def work(words: str) -> None:
    """Serves as ordered, until it is told to stop or nobody is left to tell it.

    Args:
        words: the number of the descriptor that the supervisor hears.
    """
    tell = partial(_tell, int(words))
    _wake_when_alone()
    with open(_STDIN, "rb", buffering=0, closefd=False) as orders:  # more will follow
        order: Order = pickle.load(orders)  # noqa: S301 - the supervisor's own bytes
    configure_logs(order.log_format, order.log_level)
    _label_records(order.number)
    try:
        _serve(order, tell)
    except ConfigError as error:
        tell(REFUSAL + str(error).encode()[: _MAX_REFUSAL_BYTES - 1])
        sys.exit(1)


def _serve(order: Order, tell: Callable[[bytes], None]) -> None:
    stops: Causes = SimpleQueue()
    hurries: Causes = SimpleQueue()
    # A service manager signals every process, and the supervisor once more: a second signal is no reason to hurry here.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda *_: stops.put("SIGTERM"))
    heartbeat = Heartbeat()
    runner = Runner(order.config, private_address=order.private_address, heartbeat=heartbeat)
    runner.start()
    threading.Thread(target=_obey, args=(stops, hurries, order.stop_seconds), daemon=True).start()
    with run_heartbeat(heartbeat, order.private_address, partial(tell, BEAT)):
        cause = await_cause(stops)
        tell(LEAVING)
        stop(runner, cause, hurries)


def _wake_when_alone() -> None:
    """Has the system continue this process when the supervisor dies: suspended, it would not see that it is alone."""
    # When the supervisor is dead already, standard input says so to a process that is not suspended yet.
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGCONT)


def _obey(stops: Causes, hurries: Causes, stop_seconds: float) -> None:
    while os.read(_STDIN, 1):
        hurries.put("supervisor")
    stops.put("no supervisor")
    time.sleep(stop_seconds)
    os._exit(1)  # nobody else would end a worker that hangs


def _tell(words: int, message: bytes) -> None:
    with suppress(BrokenPipeError):  # the supervisor is gone, which standard input tells
        os.write(words, message)


def _label_records(number: int) -> None:
    make_record = logging.getLogRecordFactory()

    def make_labelled(*args: object, **kwargs: object) -> logging.LogRecord:
        record = make_record(*args, **kwargs)
        record.worker = number
        return record

    logging.setLogRecordFactory(make_labelled)
