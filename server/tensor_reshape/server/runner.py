"""One server from its configuration to its end."""

import logging
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import TypeAlias

import grpc
from grpc_reflection.v1alpha import reflection, reflection_pb2_grpc

from tensor_reshape.server.admission import Admission
from tensor_reshape.server.config import COST_FACTOR, Config
from tensor_reshape.server.connections import ConnectionKeeper
from tensor_reshape.server.handlers import build_handlers
from tensor_reshape.server.health import Health
from tensor_reshape.server.housekeeping import Housekeeper, MemoryReturner, end_process
from tensor_reshape.server.interceptors import RefusalInterceptor
from tensor_reshape.server.listeners import announce, bind, count_listeners
from tensor_reshape.server.pools import start_threads
from tensor_reshape.server.resources import count_connections
from tensor_reshape.server.service import ReshapeService
from tensor_reshape.server.threads import assign_threads
from tensor_reshape.wire.allocators import keep_freed_memory
from tensor_reshape.wire.codec import SERVICE

Causes: TypeAlias = "SimpleQueue[str]"

_LOGGER = logging.getLogger(__name__)
_HEALTH_SERVICE = "grpc.health.v1.Health"
_REFLECTION_THREADS = 4
_POLL_SECONDS = 0.02
_SIGNAL_SECONDS = 0.25
_SIGN_OF_LIFE_SECONDS = 20.0  # within which a connection that is asked must give one
_PING_INTERVAL_MS = 5000
_WINDOW_BYTES = 256 * 1024
_MAX_STREAMS_PER_CONNECTION = 64  # without a limit, a flood of resets on one connection makes others' calls fail


class Runner:
    """A server that is bound when made, serves when started, and stops gracefully."""

    def __init__(
        self, config: Config, service: ReshapeService | None = None, *, private_address: str | None = None
    ) -> None:
        """Binds every address of `config`.

        Args:
            config: what to serve, and where.
            service: another than that of `config`, for tests.
            private_address: what this process listens on alone, where it shares the others with processes like it.

        Raises:
            ConfigError: an address cannot be bound.
        """
        keep_freed_memory()  # before there are threads
        self._config = config
        self._health = Health()
        listeners = sum(map(count_listeners, config.listen)) + (private_address is not None)
        self._max_connections = count_connections(config.max_connections, listeners)
        self._threads = start_threads(config.threads, "call")
        self._server = grpc.server(
            self._threads,
            interceptors=[RefusalInterceptor()],
            options=_build_options(config, self._max_connections, shares=private_address is not None),
        )
        self._admission = Admission(config)
        self._serving_threads: list[threading.Thread] = []
        handlers = build_handlers(service or ReshapeService(config.limits), self._admission, config, self._threads)
        self._server.add_generic_rpc_handlers((handlers,))
        self._health.register(self._server)
        _register_reflection(self._server)
        held = private_address is not None
        self.addresses = tuple(bind(self._server, address, config.tls, held=held) for address in config.listen)
        if private_address is not None:
            self._server.add_insecure_port(private_address)
        self._housekeeper = self._build_housekeeper()

    def start(self) -> None:
        """Starts to serve."""
        before = set(threading.enumerate())
        self._server.start()
        self._serving_threads = [thread for thread in threading.enumerate() if thread not in before]
        self._housekeeper.start()

    def stop(self, hurry: threading.Event | None = None) -> None:
        """Says NOT_SERVING, waits for clients to turn away, refuses new calls, lets those under way end.

        Args:
            hurry: cuts both waits short when set.
        """
        hurry = hurry or threading.Event()
        self._health.stop_serving()
        hurry.wait(self._config.drain_seconds)
        self._health.end_watches()
        with suppress(RuntimeError):  # grpcio begins to stop, but has no thread that will end the grace
            self._server.stop(self._config.grace_seconds)
        deadline = time.monotonic() + self._config.grace_seconds
        while self._server.wait_for_termination(_POLL_SECONDS):  # without a thread: there may be none to be had
            if hurry.is_set() or time.monotonic() > deadline:
                self._server.stop(None)
        self._housekeeper.stop()
        self._threads.shutdown(wait=False)  # what no call waits for any more may take long

    def _build_housekeeper(self) -> Housekeeper:
        # Half of what one of the largest messages takes: who sends one after another keeps the memory for them.
        memory = MemoryReturner(COST_FACTOR * self._config.max_message_bytes // 2)
        connections = ConnectionKeeper(self.addresses, self._max_connections)
        return Housekeeper(
            (
                self._end_if_deaf,
                self._admission.sweep,
                connections.look,
                lambda: memory.look(self._admission.used_bytes, time.monotonic()),
            )
        )

    def _end_if_deaf(self) -> None:
        """Ends the process when the thread that serves calls has ended, although nobody has stopped the server."""
        alive = all(thread.is_alive() for thread in self._serving_threads)
        if not alive and self._server.wait_for_termination(0):
            end_process("the thread that serves calls has ended")


def serve_until_signal(config: Config) -> None:
    """Serves until SIGTERM, SIGINT or SIGHUP; a second one ends the calls under way.

    Raises:
        ConfigError: an address cannot be bound.
    """
    signals: Causes = SimpleQueue()  # unlike an Event, safe to fill while the same thread waits on it
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda received, _: signals.put(signal.Signals(received).name))
    runner = Runner(config)
    runner.start()
    announce(runner.addresses, config.tls)
    stop(runner, await_cause(signals), signals)


def await_cause(causes: Causes) -> str:
    """Returns the first of the causes to stop, when there is one; to be called on the main thread.

    By short waits: Python runs a signal's handler between two steps of the main thread, so one that arrives just as
    the thread begins to wait would not end the wait.
    """
    while True:
        with suppress(Empty):
            return causes.get(timeout=_SIGNAL_SECONDS)


def stop(runner: Runner, cause: str, hurries: Causes) -> None:
    """Stops gracefully; a cause to hurry ends the calls under way."""
    _LOGGER.info("stopping", extra={"cause": cause})
    hurry = threading.Event()
    with suppress(RuntimeError):  # without a thread to be had, nothing hurries
        threading.Thread(target=_set_after, args=(hurries, hurry), daemon=True).start()
    runner.stop(hurry)
    _LOGGER.info("stopped")


def _set_after(hurries: Causes, hurry: threading.Event) -> None:
    hurries.get()
    hurry.set()


def _register_reflection(server: grpc.Server) -> None:
    servicer = reflection.ReflectionServicer((SERVICE, _HEALTH_SERVICE, reflection.SERVICE_NAME))
    # An open reflection stream holds a thread: not one of those that work.
    threads = ThreadPoolExecutor(max_workers=_REFLECTION_THREADS, thread_name_prefix="reflection")
    assign_threads(servicer, "ServerReflectionInfo", threads)
    reflection_pb2_grpc.add_ServerReflectionServicer_to_server(servicer, server)


def _build_options(config: Config, max_connections: int, *, shares: bool) -> list[tuple[str, int]]:
    return [
        ("grpc.max_receive_message_length", config.max_message_bytes),
        ("grpc.max_send_message_length", -1),  # an output is bounded by the limits, with a refusal that says so
        ("grpc.max_concurrent_streams", _MAX_STREAMS_PER_CONNECTION),
        # What is received of calls that wait is in no budget: a fixed window, not one that grows with the bandwidth.
        ("grpc.http2.lookahead_bytes", _WINDOW_BYTES),
        ("grpc.http2.bdp_probe", 0),
        ("grpc.so_reuseport", int(shares)),  # unasked, a second server would take every other connection
        ("grpc.max_allowed_incoming_connections", max_connections),
        *_limit_connections(config),
    ]


def _limit_connections(config: Config) -> list[tuple[str, int]]:
    sign_of_life = _count_milliseconds(min(config.keepalive_seconds, _SIGN_OF_LIFE_SECONDS))
    options = [
        ("grpc.server_handshake_timeout_ms", _count_milliseconds(config.handshake_seconds)),
        ("grpc.http2.settings_timeout", _count_milliseconds(config.handshake_seconds)),
        ("grpc.max_connection_idle_ms", _count_milliseconds(config.max_connection_idle_seconds)),
        ("grpc.keepalive_time_ms", _count_milliseconds(config.keepalive_seconds)),
        ("grpc.keepalive_timeout_ms", sign_of_life),
        ("grpc.http2.ping_timeout_ms", sign_of_life),  # a minute otherwise, whatever the other one is
        # A peer that is gone without a word is found also when it has no call under way.
        ("grpc.keepalive_permit_without_calls", 1),
        ("grpc.http2.max_pings_without_data", 0),
        # Clients may ask as well, twice as often as the most eager stock client does; a flood of pings ends.
        ("grpc.http2.min_ping_interval_without_data_ms", _PING_INTERVAL_MS),
    ]
    if config.max_connection_age_seconds:
        options.append(("grpc.max_connection_age_ms", _count_milliseconds(config.max_connection_age_seconds)))
    return options


def _count_milliseconds(seconds: float) -> int:
    return max(1, round(seconds * 1000))
