"""One server from its configuration to its end."""

import logging
import signal
import threading
from concurrent.futures import ThreadPoolExecutor
from queue import SimpleQueue
from typing import TypeAlias

import grpc

from tensor_reshape.server.admission import Admission
from tensor_reshape.server.auxiliary_methods import AuxiliaryHandlers, build_health
from tensor_reshape.server.config import Config
from tensor_reshape.server.handlers import InlineHandlers, build_handlers
from tensor_reshape.server.heartbeats import Pulse
from tensor_reshape.server.housekeeping import Housekeeper
from tensor_reshape.server.listeners import announce, bind
from tensor_reshape.server.reflection import Reflection
from tensor_reshape.server.router import CallRouter
from tensor_reshape.server.service import ReshapeService
from tensor_reshape.wire.allocators import keep_freed_memory

Causes: TypeAlias = "SimpleQueue[str]"

_LOGGER = logging.getLogger(__name__)
_WINDOW_BYTES = 256 * 1024
_MAX_STREAMS_PER_CONNECTION = 64  # without a limit, a flood of resets on one connection makes others' calls fail


class Runner:
    """A server that is bound when made, serves when started, and stops gracefully."""

    def __init__(
        self,
        config: Config,
        service: ReshapeService | None = None,
        *,
        private_address: str | None = None,
        pulse: Pulse | None = None,
    ) -> None:
        """Binds every address of `config`.

        Args:
            config: what to serve, and where.
            service: another than that of `config`, for tests.
            private_address: what this process listens on alone, where it shares the others with processes like it.
            pulse: is told of every call.

        Raises:
            ConfigError: an address cannot be bound.
        """
        keep_freed_memory()  # before there are threads
        self._config = config
        self._health, methods = build_health()
        self._reflection = Reflection()
        methods += self._reflection.build_methods() if config.reflection else []
        threads = ThreadPoolExecutor(max_workers=config.threads, thread_name_prefix="call")
        self._admission = Admission(config)
        self._housekeeper = Housekeeper(self._admission)
        handlers = build_handlers(service or ReshapeService(config.limits), self._admission, config, threads)
        routes = {method.name: method.submit for method in methods}
        self._server = grpc.server(
            CallRouter(threads, routes, serves_inline=isinstance(handlers, InlineHandlers)),
            options=_build_options(config, shares=private_address is not None),
        )
        self._server.add_generic_rpc_handlers((pulse or Pulse(), AuxiliaryHandlers(methods), handlers))
        held = private_address is not None
        self.addresses = tuple(bind(self._server, address, config.tls, held=held) for address in config.listen)
        if private_address is not None:
            self._server.add_insecure_port(private_address)

    def start(self) -> None:
        """Starts to serve."""
        self._server.start()
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
        self._reflection.end_streams()
        stopped = self._server.stop(self._config.grace_seconds)
        threading.Thread(target=self._stop_at_once, args=(hurry,), daemon=True).start()
        stopped.wait()
        self._housekeeper.stop()
        hurry.set()  # nobody waits for it any more

    def _stop_at_once(self, hurry: threading.Event) -> None:
        hurry.wait()
        self._server.stop(None)


def serve_until_signal(config: Config) -> None:
    """Serves until SIGTERM or SIGINT; a second one ends the calls under way.

    Raises:
        ConfigError: an address cannot be bound.
    """
    signals: Causes = SimpleQueue()  # unlike an Event, safe to fill while the same thread waits on it
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda received, _: signals.put(signal.Signals(received).name))
    runner = Runner(config)
    runner.start()
    announce(runner.addresses, config.tls)
    stop(runner, signals.get(), signals)


def stop(runner: Runner, cause: str, hurries: Causes) -> None:
    """Stops gracefully; a cause to hurry ends the calls under way."""
    _LOGGER.info("stopping", extra={"cause": cause})
    hurry = threading.Event()
    threading.Thread(target=_set_after, args=(hurries, hurry), daemon=True).start()
    runner.stop(hurry)
    _LOGGER.info("stopped")


def _set_after(hurries: Causes, hurry: threading.Event) -> None:
    hurries.get()
    hurry.set()


def _build_options(config: Config, *, shares: bool) -> list[tuple[str, int]]:
    return [
        ("grpc.max_receive_message_length", config.max_message_bytes),
        ("grpc.max_send_message_length", -1),  # an output is bounded by the limits, with a refusal that says so
        ("grpc.max_concurrent_streams", _MAX_STREAMS_PER_CONNECTION),
        # What is received of calls that wait is in no budget: a fixed window, not one that grows with the bandwidth.
        ("grpc.http2.lookahead_bytes", _WINDOW_BYTES),
        ("grpc.http2.bdp_probe", 0),
        ("grpc.so_reuseport", int(shares)),  # unasked, a second server would take every other connection
    ]
