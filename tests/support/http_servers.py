"""Servers for HTTP inside this process, on a real socket."""

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from in_process import ANY_PORT, WAIT_SECONDS
from tensor_reshape.rules.errors import LimitError, Reason
from tensor_reshape.rules.limits import DEFAULT_LIMITS, Limits
from tensor_reshape.server.calls.gates import Gate
from tensor_reshape.server.config import Config
from tensor_reshape.server.http.applications import Application
from tensor_reshape.server.http.asgi import Reply
from tensor_reshape.server.http.calls import Admission
from tensor_reshape.server.http.servers import HttpServer
from tensor_reshape.server.service.method_tables import IsOver
from tensor_reshape.server.service.methods import ReshapeService
from tensor_reshape.server.telemetry.metrics import SharedCounters
from waits import await_that

CONFIG = Config(http_listen=ANY_PORT, drain_seconds=0, shutdown_grace_seconds=1)


class SlowService(ReshapeService):
    """A service whose batches run on threads, and wait there until they are released or their call is over."""

    def __init__(self, limits: Limits = DEFAULT_LIMITS, *, obeys: bool = True) -> None:
        super().__init__(limits)
        # is released when a batch has begun; set it to release all batches; is released when a batch has stopped
        # because its call is over
        self.arrived, self.released, self.stopped = threading.Semaphore(0), threading.Event(), threading.Semaphore(0)
        self.obeys = obeys  # whether a batch stops when its call is over

    def await_arrival(self) -> None:
        """Waits until another batch has begun."""
        assert self.arrived.acquire(timeout=WAIT_SECONDS)

    def await_stop(self) -> None:
        """Waits until another batch has stopped."""
        assert self.stopped.acquire(timeout=WAIT_SECONDS)

    def infer_batch_light(self, request: bytes) -> bytes | None:
        del request
        return None

    def infer_batch(self, request: bytes, is_over: IsOver = lambda: False) -> bytes:
        self.arrived.release()
        while not self.released.wait(0.001):
            if self.obeys and is_over():
                self.stopped.release()
                raise LimitError.of(Reason.STALLED, "the call is over")
        return super().infer_batch(request)


class RunningPort(NamedTuple):
    port: HttpServer
    app: Application

    @property
    def address(self) -> str:
        return self.port.address

    @property
    def admission(self) -> Admission:
        return self.app.admission

    def await_free(self) -> None:
        """Waits until no request has a place or memory."""
        await_that(lambda: not len(self.admission) and not self.admission.used_bytes)


@contextmanager
def run_http(
    config: Config = CONFIG,
    *,
    service: ReshapeService | None = None,
    gates: Sequence[Gate] = (),
    counters: SharedCounters | None = None,
    scrape: Callable[[], Reply] | None = None,
) -> Iterator[RunningPort]:
    """Runs a port until the end of the block. Batches of a `SlowService` are released then."""
    app = Application(config, service=service, gates=gates, counters=counters, scrape=scrape)
    port = HttpServer(config, app)
    port.start()
    try:
        yield RunningPort(port, app)
    finally:
        if isinstance(service, SlowService):
            service.released.set()
        hurry = threading.Event()
        hurry.set()
        port.stop(hurry)
