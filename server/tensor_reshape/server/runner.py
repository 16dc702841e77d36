"""One server from its configuration to its end."""

import logging
import signal
import threading
from concurrent.futures import ThreadPoolExecutor
from queue import SimpleQueue

import grpc
from grpc_reflection.v1alpha import reflection, reflection_pb2_grpc

from tensor_reshape.server.config import Config
from tensor_reshape.server.health import Health
from tensor_reshape.server.interceptors import RefusalInterceptor
from tensor_reshape.server.listeners import bind
from tensor_reshape.server.service import ReshapeService
from tensor_reshape.server.threads import assign_threads
from tensor_reshape.wire.codec import SERVICE

_LOGGER = logging.getLogger(__name__)
_HEALTH_SERVICE = "grpc.health.v1.Health"
_REFLECTION_THREADS = 4
_MAX_STREAMS_PER_CONNECTION = 64  # without a limit, a flood of resets on one connection makes others' calls fail


class Runner:
    """A server that is bound when made, serves when started, and stops gracefully."""

    def __init__(self, config: Config, service: ReshapeService | None = None) -> None:
        """Binds every address of `config`.

        Raises:
            ConfigError: an address cannot be bound.
        """
        self._config = config
        self._health = Health()
        self._server = grpc.server(
            ThreadPoolExecutor(max_workers=config.threads, thread_name_prefix="call"),
            interceptors=[RefusalInterceptor()],
            options=_build_options(config),
        )
        (service or ReshapeService(config.limits)).register(self._server)
        self._health.register(self._server)
        _register_reflection(self._server)
        self.addresses = tuple(bind(self._server, address, config.tls) for address in config.listen)

    def start(self) -> None:
        """Starts to serve."""
        self._server.start()
        for address in self.addresses:
            _LOGGER.info("listening", extra={"address": address, "tls": self._config.tls is not None})

    def stop(self, hurry: threading.Event | None = None) -> None:
        """Says NOT_SERVING, waits for clients to turn away, refuses new calls, lets those under way end.

        Args:
            hurry: cuts both waits short when set.
        """
        hurry = hurry or threading.Event()
        self._health.stop_serving()
        hurry.wait(self._config.drain_seconds)
        self._health.end_watches()
        stopped = self._server.stop(self._config.grace_seconds)
        threading.Thread(target=self._stop_at_once, args=(hurry,), daemon=True).start()
        stopped.wait()
        hurry.set()  # nobody waits for it any more

    def _stop_at_once(self, hurry: threading.Event) -> None:
        hurry.wait()
        self._server.stop(None)


def serve_until_signal(config: Config) -> None:
    """Serves until SIGTERM or SIGINT; a second one ends the calls under way.

    Raises:
        ConfigError: an address cannot be bound.
    """
    signals: SimpleQueue[int] = SimpleQueue()  # unlike an Event, safe to fill while the same thread waits on it
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda received, _: signals.put(received))
    runner = Runner(config)
    runner.start()
    _LOGGER.info("stopping", extra={"signal": signal.Signals(signals.get()).name})
    hurry = threading.Event()
    threading.Thread(target=_set_after, args=(signals, hurry), daemon=True).start()
    runner.stop(hurry)
    _LOGGER.info("stopped")


def _set_after(signals: SimpleQueue[int], hurry: threading.Event) -> None:
    signals.get()
    hurry.set()


def _register_reflection(server: grpc.Server) -> None:
    servicer = reflection.ReflectionServicer((SERVICE, _HEALTH_SERVICE, reflection.SERVICE_NAME))
    # An open reflection stream holds a thread: not one of those that work.
    threads = ThreadPoolExecutor(max_workers=_REFLECTION_THREADS, thread_name_prefix="reflection")
    assign_threads(servicer, "ServerReflectionInfo", threads)
    reflection_pb2_grpc.add_ServerReflectionServicer_to_server(servicer, server)


def _build_options(config: Config) -> list[tuple[str, int]]:
    return [
        ("grpc.max_receive_message_length", config.max_message_bytes),
        ("grpc.max_send_message_length", -1),  # an output is bounded by the limits, with a refusal that says so
        ("grpc.max_concurrent_streams", _MAX_STREAMS_PER_CONNECTION),
        ("grpc.so_reuseport", 0),  # the default lets a second server take every other connection
    ]
