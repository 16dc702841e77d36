"""Which of the two ways serves the methods: `inline` or `threaded`."""

import logging
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import grpc

from tensor_reshape.server import inline
from tensor_reshape.server.admission import Admission
from tensor_reshape.server.config import Config, ConfigError
from tensor_reshape.server.service import ReshapeService
from tensor_reshape.server.threaded import CALL_THREADS, ThreadedHandlers, ThreadedStream, ThreadedUnary
from tensor_reshape.wire.streams import STREAM_METHOD

_LOGGER = logging.getLogger(__name__)


def build_handlers(
    service: ReshapeService, admission: Admission, config: Config, threads: ThreadPoolExecutor
) -> grpc.GenericRpcHandler:
    """Returns how calls are served: as `config.serving` says.

    Raises:
        ConfigError: inline, and the installed grpcio does not allow it.
    """
    if config.serving == "threads":
        return ThreadedHandlers(service, admission, config.threads)
    if inline.is_supported():
        return InlineHandlers(service, admission, threads, config.threads)
    message = f"grpcio {grpc.__version__} cannot serve inline"
    if config.serving == "inline":
        raise ConfigError(message)
    _LOGGER.warning(message)
    return ThreadedHandlers(service, admission, config.threads)


class InlineHandlers(grpc.GenericRpcHandler):
    """The service's methods, for `inline.InlinePool` to serve."""

    def __init__(
        self, service: ReshapeService, admission: Admission, threads: ThreadPoolExecutor, max_working: int
    ) -> None:
        """Serves `service` within `admission`; `threads` are for what takes long.

        Behind an interceptor that wraps what it finds, calls are served by threads: `max_working` of them at once.
        """
        pool = inline.InlinePool(max_workers=CALL_THREADS, thread_name_prefix="unrecognized")
        admission.limit_threads(CALL_THREADS, pool.are_short)
        working = threading.Semaphore(max_working)
        receivers = ThreadPoolExecutor(max_workers=CALL_THREADS, thread_name_prefix="receiver")
        plan = partial(inline.Plan, admission, threads, pool)
        self._handlers: dict[str, grpc.RpcMethodHandler[bytes, bytes]] = {
            method.name: grpc.stream_unary_rpc_method_handler(
                plan(method.name, partial(inline.UnaryCall, method), partial(ThreadedUnary, method, working))
            )
            for method in service.methods
        }
        self._handlers[STREAM_METHOD] = grpc.stream_stream_rpc_method_handler(
            plan(STREAM_METHOD, partial(inline.StreamCall, service), partial(ThreadedStream, service, receivers))
        )

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> "grpc.RpcMethodHandler[bytes, bytes] | None":
        """Returns how a method's calls are served."""
        return self._handlers.get(handler_call_details.method)
