"""Creates, starts and stops one server in this process."""

import logging
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext

from tensor_reshape.runtime.allocators import keep_freed_memory
from tensor_reshape.server.calls.gates import Gate, Gates, build_quotas
from tensor_reshape.server.calls.sources import Sources
from tensor_reshape.server.config import COST_FACTOR, STOP_SIGNALS, Config
from tensor_reshape.server.engine.engine import Engine, count_pool_bytes
from tensor_reshape.server.grpc.health import HEALTH_SERVICE, Health, HealthPort
from tensor_reshape.server.grpc.options import build_credentials, build_options
from tensor_reshape.server.grpc.reflection import Reflection
from tensor_reshape.server.grpc.servers import Server, check_core
from tensor_reshape.server.grpc.services import MAX_SILENT_REFLECTIONS, Service, build_builtin_service
from tensor_reshape.server.oip.inferences import Inference
from tensor_reshape.server.oip.methods import build_methods as build_inference_methods
from tensor_reshape.server.oip.methods import build_probes
from tensor_reshape.server.process.housekeeping import (
    RETURN_SECONDS,
    SWEEP_SECONDS,
    Housekeeper,
    MemoryReturner,
    end_process,
)
from tensor_reshape.server.process.listeners import bind, count_listeners
from tensor_reshape.server.process.logs import report_lost_records
from tensor_reshape.server.process.pools import FairLock, Pool
from tensor_reshape.server.process.resources import count_connections
from tensor_reshape.server.process.signals import catch_signals, stop_at_signal
from tensor_reshape.server.security.access import Access
from tensor_reshape.server.security.reloads import RELOAD_SECONDS
from tensor_reshape.server.server_info import describe_server
from tensor_reshape.server.service.method_tables import WORK_THREADS, MethodTable
from tensor_reshape.server.service.methods import ReshapeService, build_info_method
from tensor_reshape.server.startup_log import announce
from tensor_reshape.server.telemetry.call_counters import CallCounters, write_calls
from tensor_reshape.server.telemetry.call_logs import CallLogs, log_outside
from tensor_reshape.server.telemetry.metrics import (
    BUDGET_BYTES,
    CONNECTION_LIMIT,
    COUNTED_SERVICES,
    MAX_CALLS,
    UPDATE_SECONDS,
    VALUES,
    CopiedCounters,
    SharedCounters,
    list_methods,
    list_streams,
)

_LOGGER = logging.getLogger(__name__)
_SERVICES = (*COUNTED_SERVICES, HEALTH_SERVICE)  # the gRPC services that server reflection describes to clients
_POLL_SECONDS = 0.02
_BEAT_SECONDS = 0.5  # the interval of heartbeats in seconds
# At this interval in seconds, the server checks the receiving thread and logs how many log records were lost.
_REPORT_SECONDS = 1.0


class Runner:
    """A gRPC server that binds its addresses when it is created, serves after `start`, and stops gracefully."""

    def __init__(
        self,
        config: Config,
        service: ReshapeService | None = None,
        *,
        counters: SharedCounters | None = None,
        shares_ports: bool = False,
        gates: Sequence[Gate] = (),
    ) -> None:
        """Binds every address of `config`.

        Args:
            config: the configuration.
            service: the service to use instead of the default service, for tests.
            counters: the memory that stores the metrics, created for the methods `list_methods()`. None if the process
                has no metrics.
            shares_ports: whether other workers also listen on these addresses. The supervisor has then reserved their
                ports.
            gates: checks of a call that run after authentication, in addition to the default checks (see
                `calls.gates`).

        Raises:
            ConfigError: an address cannot be bound, a configured file is invalid, or the installed release of grpcio
                does not work with this server.
        """
        keep_freed_memory()  # this function must be called before any thread starts
        check_core()
        self._config = config
        self._max_connections = count_connections(sum(map(count_listeners, config.all_addresses)))
        service = service or ReshapeService(config.limits, make_turns=FairLock)
        inference = Inference(service, config.limits)
        info = MethodTable((build_info_method(describe_server(config)),), ())
        methods = service.methods.join(info).join(build_inference_methods(inference))
        self._lookups = service.lookups
        reflection = Reflection(_SERVICES)
        self._access = Access(config, (*methods.names, *reflection.names))
        self._call_logs = CallLogs(config)
        # The check of quotas is the last admission check (gate), because earlier gates determine the identity of the
        # caller. In addition, a call that an earlier gate rejects must not count towards a quota.
        passed = Gates((*self._access.gates, *gates, *build_quotas(config)))
        self._engine = Engine(config, gates=passed, observers=self._call_logs.logs)
        self._pools = {work: Pool(count, work.name.lower()) for work, count in WORK_THREADS.items()}
        served = Service(self._engine, methods, self._pools)
        self._health = Health()
        health = self._health.build_methods(build_probes(self._health.is_serving))
        introspection = MethodTable((), reflection.build_methods())
        self._builtin = (
            build_builtin_service(config, health),
            build_builtin_service(config, introspection, passed, self._pools, MAX_SILENT_REFLECTIONS),
        )
        self._services: tuple[Service, ...] = (served, *self._builtin)
        options = build_options(config, self._max_connections, shares=shares_ports)
        sources = Sources(config.trusted_proxy)
        self._server = Server(self._services, sources, options, self._record_unknown_method)
        self.addresses = tuple(
            bind(self._server, address, build_credentials(self._access.certificates), held=shares_ports)
            for address in config.listen
        )
        self._health_port = None
        if config.health_listen is not None:
            self._health_port = HealthPort(config, config.health_listen, self._max_connections, shares=shares_ports)
            self._services = (*self._services, self._health_port.service)
        self._count_unknown: Callable[[], None] = lambda: None
        self._housekeeper = self._build_housekeeper()
        if counters is not None:
            self._count_into(counters)

    @property
    def health_address(self) -> str | None:
        """The address that serves only health checks, with its bound port, or None if it is not configured."""
        return None if self._health_port is None else self._health_port.address

    def beat(self, send: Callable[[], None]) -> None:
        """Makes the server call `send` about twice a second, as long as the server works.

        Call this method before `start`. The server sends such a heartbeat only if the receiving thread has completed an
        iteration of its loop since the last check. The receiving thread completes at least one iteration per second,
        whatever clients do. Clients therefore cannot stop the heartbeats of a working server.
        """
        last: int | None = None

        def check() -> None:
            nonlocal last
            turns = self._server.turns
            if turns != last:
                last = turns
                send()

        self._housekeeper.add(_BEAT_SECONDS, check)

    def start(self) -> None:
        """Starts to accept calls."""
        self._server.start()
        if self._health_port is not None:
            self._health_port.start()
        self._housekeeper.start()

    def stop(self, hurry: threading.Event | None = None) -> int:
        """Reports NOT_SERVING for the drain period, then rejects new calls and waits for running calls to finish.

        Returns the number of calls that did not finish in time, and were cancelled.

        Args:
            hurry: an event that ends the drain period and the grace period early.
        """
        hurry = hurry or threading.Event()
        self._health.stop_serving()
        if self._health_port is not None:
            self._health_port.stop_serving()
        hurry.wait(self._config.drain_seconds)
        self._end_open_calls()
        self._server.stop()
        cancelled = 0
        deadline = time.monotonic() + self._config.shutdown_grace_seconds
        while not self._server.wait(_POLL_SECONDS):
            # Open calls are ended in each iteration, because more of them may have started in the meantime.
            self._end_open_calls()
            if hurry.is_set() or time.monotonic() > deadline:
                # The maximum is taken, because a call may need several iterations to end and is counted in each of
                # them.
                cancelled = max(cancelled, self._server.cancel_calls())
        if self._health_port is not None:
            self._health_port.end()
        self._housekeeper.stop()
        self._call_logs.end()
        for pool in self._pools.values():
            # Do not wait for the threads, because no client waits for their remaining work, and this work may take
            # long.
            pool.shutdown(wait=False)
        return cancelled

    def _end_open_calls(self) -> None:
        """Ends calls that never end on their own, such as health watches, so that the server need not wait for them.

        However, if the client of a health watch does not read the last message, the watch stays open for the whole
        grace period.
        """
        self._health.end_watches()
        for service in self._builtin:
            service.engine.perform(service.engine.close())

    def _record_unknown_method(self, method: str) -> None:
        self._count_unknown()
        log_outside(method)

    def _build_housekeeper(self) -> Housekeeper:
        housekeeper = Housekeeper(self._is_resting)
        # The process returns freed memory to the system only while calls have reserved at most half of the memory that
        # a message of the maximum size needs. While a client sends such messages one after the other, the process
        # therefore keeps their memory for the next message.
        memory = MemoryReturner(COST_FACTOR * self._config.max_message_bytes // 2)
        housekeeper.add(SWEEP_SECONDS, self._sweep)
        housekeeper.add(_REPORT_SECONDS, self._end_if_receiver_stopped)
        housekeeper.add(_REPORT_SECONDS, report_lost_records)
        if (port := self._health_port) is not None:
            housekeeper.add(SWEEP_SECONDS, lambda: port.update(time.monotonic(), self._server.turns))
        housekeeper.add(RETURN_SECONDS, lambda: memory.check(self._engine.used_bytes))
        housekeeper.add(RELOAD_SECONDS, self._access.reload_changed_files)
        return housekeeper

    def _count_into(self, counters: SharedCounters) -> None:
        calls, engine = CallCounters(counters, list_methods()), self._engine
        engine.journals = (*engine.journals, calls)
        self._count_unknown = calls.count_other
        copied, streams = CopiedCounters(counters, self._lookups), list_streams()
        connections = self._max_connections * len(self._config.all_addresses)
        counters.set(MAX_CALLS, self._config.max_calls)
        counters.set(CONNECTION_LIMIT, connections)
        for pool in VALUES["pool"]:
            counters.set(BUDGET_BYTES, count_pool_bytes(self._config), pool)
        self._housekeeper.add(UPDATE_SECONDS, copied.update)
        self._housekeeper.add(UPDATE_SECONDS, lambda: write_calls(counters, engine.list_calls(), streams))

    def _is_resting(self) -> bool:
        """Returns whether no running call needs frequent checks.

        Health watches and idle reflection streams do not need them.
        """
        return self._engine.is_idle and not any(service.engine.has_waiting_calls for service in self._services[1:])

    def _sweep(self) -> None:
        for service in self._services:
            if not service.engine.is_idle:
                service.engine.perform(service.engine.sweep())

    def _end_if_receiver_stopped(self) -> None:
        """Ends the process if the thread that receives calls has ended although the server was not stopped."""
        if self._server.has_stopped_receiving:
            end_process("the thread that serves calls has ended")


def serve_until_signal(config: Config) -> None:
    """Serves until SIGTERM, SIGINT or SIGHUP. A second signal ends running calls at once.

    Args:
        config: the configuration.

    Raises:
        ConfigError: an address cannot be bound, or a configured file is invalid.
    """
    with catch_signals(STOP_SIGNALS) as signals:
        counters = None if config.metrics_listen is None else SharedCounters(list_methods())
        runner = Runner(config, counters=counters)
        with _show_metrics(config, counters) as metrics_address:
            runner.start()
            announce(runner.addresses, config, health_address=runner.health_address, metrics_address=metrics_address)
            stop_at_signal(signals, runner.stop)


def _show_metrics(config: Config, counters: SharedCounters | None) -> AbstractContextManager[str | None]:
    """Serves metrics if `metrics_listen` is configured, and yields the address with its bound port.

    Raises:
        ConfigError: the address cannot be bound.
    """
    if config.metrics_listen is None or counters is None:
        return nullcontext()
    from tensor_reshape.server.telemetry import prometheus  # noqa: PLC0415 - needs memory

    registry = prometheus.build_registry([(prometheus.OnlyProcess(), counters)])
    return prometheus.serve_metrics(config.metrics_listen, registry)
