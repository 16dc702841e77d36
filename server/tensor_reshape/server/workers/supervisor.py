"""The supervisor, which starts the workers, replaces workers that end or hang, and stops all workers.

- The supervisor serves no calls and does not import grpc. Calls therefore cannot affect it, and it needs only a third
  of the memory of a worker.
- The supervisor binds each port of the workers without listening. A port therefore stays reserved while no worker runs,
  and only processes of the same user can share the port. The supervisor itself serves only the metrics.
- The standard input of a worker is a socket. The supervisor sends the configuration to the worker, and later a byte if
  the worker must end its running calls. The worker sends heartbeats, or the reason why it cannot serve. When the worker
  starts to stop, it shuts down its sending direction of the socket.
"""

import logging
import math
import os
import pickle
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress

from tensor_reshape.server.config import STOP_SIGNALS, Config, ConfigError
from tensor_reshape.server.process.listeners import hold
from tensor_reshape.server.process.signals import catch_signals
from tensor_reshape.server.startup_log import announce

BEAT = b"\0"  # a heartbeat
START_SECONDS = 60.0  # longest time until the first heartbeat, because imports can take seconds on a busy machine
HANG_SECONDS = 10.0  # time without heartbeats after which a serving worker is killed
STOP_MARGIN_SECONDS = 3.0  # a worker must stop within this time after the drain and grace periods
STABLE_SECONDS = 10.0  # a worker that has run for this time is started again without delay
MAX_DELAY_SECONDS = 10.0  # the longest delay before a worker is started again

# With the option -P, Python imports nothing from the working directory.
_COMMAND = (sys.executable, "-P", "-m", "tensor_reshape.server.workers.worker")
_TICK_SECONDS = 1.0  # the longest time between two checks of the heartbeats
_LOGGER = logging.getLogger(__name__)


class Worker:
    """A worker, which has one process at a time.

    The process is a new Python process, because a fork would copy locks that other threads hold.
    """

    def __init__(self, number: int, config: Config, command: Sequence[str] = _COMMAND) -> None:
        """Creates a worker without a process."""
        self.number, self._config, self._command = number, config, command  # metrics and logs contain the number
        self.counters: int | None = None  # the file descriptor of the shared memory for metrics, if there is one
        self.serves = False  # whether the process has sent a heartbeat and is not stopping
        self.reason = ""  # why the last process could not serve
        self.starts = self.hangs = 0  # the numbers of attempted starts, and of processes that hung
        self._is_asked = False  # whether the supervisor has asked the worker to stop
        self._is_stopping = False  # whether the process has begun to stop, so that no heartbeats are expected
        self._stop_seconds = config.drain_seconds + config.shutdown_grace_seconds + STOP_MARGIN_SECONDS
        self._process: subprocess.Popen[bytes] | None = None
        # If no process runs at the time `due`, the next process is started. If a process still runs at this time, it is
        # killed.
        self.due = self._started_at = self._delay = 0.0

    @property
    def pid(self) -> int | None:
        """The process identifier, or None if no process runs."""
        process = self._process  # the threads for metrics read `_process` while the supervisor replaces it
        return process.pid if process else None

    def advance(self, now: float) -> bool:
        """Starts a process if none runs.

        Otherwise reads the messages of the process, and kills it if a message is overdue. Returns whether the process
        has ended.
        """
        if self._process is None:
            if now >= self.due:
                self._start(now)
            return False
        code = self._process.poll()
        # Messages are read before the time is checked, because a heartbeat that is already in the socket has arrived in
        # time.
        self._read_messages(now)
        if code is not None:
            if not self.reason:  # if there is a reason, the supervisor reports it
                self._log(logging.INFO if self._is_asked else logging.ERROR, "worker ended", code=code)
            self.close()
            self._delay_start(now)
        elif now >= self.due:
            state = "stopping" if self._is_stopping else "serving" if self.serves else "starting"
            self._log(logging.ERROR, "worker hangs", state=state)
            self.hangs += self.serves
            self._await_end(math.inf)  # no further deadline is needed after SIGKILL
            self._process.kill()
        return code is not None

    def register(self, poll: "select.poll") -> None:
        """Registers the events that the supervisor waits for.

        The supervisor does not wait for the heartbeats of a serving process.
        """
        if self._process is not None and not self._is_stopping:
            poll.register(self._channel, select.POLLRDHUP if self.serves else select.POLLIN)

    def stop(self, now: float, *, hurries: bool) -> None:
        """Stops the process gracefully. If `hurries` is true, makes the process end its running calls at once."""
        self._is_asked = True
        if self._process is not None and hurries:
            with suppress(OSError):  # `send` fails if the process has ended
                self._channel.send(b"h", socket.MSG_DONTWAIT)
            self.due = min(self.due, now + STOP_MARGIN_SECONDS)
        elif self._process is not None:
            self._await_end(now)
            self._process.terminate()

    def close(self) -> None:
        """Kills the process and waits for its end. Does nothing if no process runs."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._channel.close()
            self._process, self.serves = None, False

    def _await_end(self, now: float) -> None:
        self.serves, self._is_stopping, self.due = False, True, now + self._stop_seconds

    def _start(self, now: float) -> None:
        self.starts += 1
        self.reason, self._is_stopping = "", False
        self._started_at, self.due = now, now + START_SECONDS
        try:
            with ExitStack() as opened:
                self._channel, theirs = map(opened.enter_context, socket.socketpair())
                # `sendall` does not wait here, because the socket can buffer at least 100 KB, and a configuration has a
                # few KB.
                self._channel.sendall(pickle.dumps((self.number, self._config, self.counters, self._stop_seconds)))
                self._process = subprocess.Popen(  # noqa: S603 - a fixed command
                    self._command,
                    stdin=theirs.fileno(),
                    pass_fds=() if self.counters is None else (self.counters,),
                    start_new_session=True,  # so that Ctrl-C in a terminal signals only the supervisor
                )
                theirs.close()
                opened.pop_all()
        except OSError as error:  # the system has too little memory, or too many processes or descriptors
            self._log(logging.ERROR, "worker cannot be started", reason=str(error))
            self._delay_start(now)

    def _delay_start(self, now: float) -> None:
        if now - self._started_at >= STABLE_SECONDS:
            self._delay = 0.0
        self.due = now + self._delay
        self._delay = min(2 * self._delay + 0.5, MAX_DELAY_SECONDS)

    def _read_messages(self, now: float) -> None:
        try:
            messages = self._channel.recv(1 << 16, socket.MSG_DONTWAIT)
        except OSError:  # no message has arrived, or the process ended before it read its last message
            return
        if reason := messages.strip(BEAT):
            self.reason = reason.decode(errors="replace")
        elif messages and not self._is_stopping:
            if not self.serves:
                self._log(logging.INFO, "worker serves")
            self.serves, self.due = True, now + HANG_SECONDS
        elif not self._is_stopping:
            self._await_end(now)

    def _log(self, level: int, message: str, **extra: object) -> None:
        _LOGGER.log(level, message, extra={"worker": self.number, "pid": self.pid, **extra})


def supervise(config: Config) -> None:
    """Serves with several processes until SIGTERM, SIGINT or SIGHUP. A second stop signal ends running calls at once.

    The environment variables that the workers inherit must already select gRPC's I/O engine.
    """
    if sys.platform != "linux":
        message = "--workers above 1 and --http-listen need Linux. On this system, run `tensor-reshape serve` without "
        message += "these options for gRPC, and `tensor-reshape http` for HTTP"
        raise ConfigError(message)
    with ExitStack() as stack:
        # The supervisor replaces port 0 by a free port, because each worker would otherwise bind a different port.
        health = config.health_listen and stack.enter_context(hold(config.health_listen))
        listen = tuple(stack.enter_context(hold(address)) for address in config.listen)
        shares, http, metrics = [config.for_worker(listen, health)] * config.workers, None, None
        if config.http_listen is not None:
            http = stack.enter_context(hold(config.http_listen))
            shares.append(config.for_http(http))
        workers = [Worker(number, share) for number, share in enumerate(shares, 1)]
        for worker in workers:
            stack.callback(worker.close)  # no worker outlives the supervisor
        if config.metrics_listen is not None:
            from tensor_reshape.server.telemetry import prometheus  # noqa: PLC0415 - needs memory
            from tensor_reshape.server.telemetry.metrics import SharedCounters, list_methods  # noqa: PLC0415 - as above

            for worker in workers:
                worker.counters = os.memfd_create("tensor-reshape-metrics")
            sources = [(worker, SharedCounters(list_methods(), worker.counters)) for worker in workers]
            registry = prometheus.build_registry(sources)
            metrics = stack.enter_context(prometheus.serve_metrics(config.metrics_listen, registry))
        ports = {"health_address": health, "http_address": http, "metrics_address": metrics}
        run(workers, lambda: announce(listen, config, **ports))


def run(workers: Sequence[Worker], announce: Callable[[], None]) -> None:
    """Runs the workers until a stop signal arrives. Calls `announce` when all workers serve for the first time."""
    has_served, is_stopping, now = False, False, 0.0
    before = time.monotonic()
    with catch_signals((*STOP_SIGNALS, signal.SIGCHLD)) as signals:  # SIGCHLD reports that a process has ended
        while current := [worker for worker in workers if worker.pid or not is_stopping]:
            ended = [worker for worker in current if worker.advance(now)]
            for worker in [] if is_stopping else ended:
                if not has_served or (worker.reason and not any(other.serves for other in workers)):
                    raise ConfigError(worker.reason or "a worker ended during the start. See the log for the cause")
                # For example, a new certificate is invalid, and the other workers still use the previous certificate.
                if worker.reason:
                    _LOGGER.error("worker cannot be started", extra={"reason": worker.reason})
            if not has_served and all(worker.serves for worker in workers):
                has_served = True
                announce()
            poll = select.poll()
            poll.register(signals, select.POLLIN)
            for worker in current:
                worker.register(poll)
            wait_seconds = max(0.0, min(_TICK_SECONDS, *(worker.due - now for worker in current)))
            ready = dict(poll.poll(1000 * wait_seconds))
            # If the supervisor was suspended, the workers were probably also suspended and sent no heartbeats. The time
            # `now` therefore advances by at most a second more than the wait, so that these workers are not killed.
            later = time.monotonic()
            now, before = now + min(later - before, wait_seconds + 1.0), later
            for number in os.read(signals, 64) if signals in ready else b"":
                if number == signal.SIGCHLD:
                    continue
                if not is_stopping:
                    _LOGGER.info("stopping", extra={"cause": signal.Signals(number).name})
                for worker in workers:
                    worker.stop(now, hurries=is_stopping)
                is_stopping = True
    _LOGGER.info("stopped")
