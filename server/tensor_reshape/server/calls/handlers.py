"""Which of the two ways serves the methods: `inline` or `threaded`."""

import logging
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import grpc

from tensor_reshape.server.calls import core_calls, inline, serving_loops
from tensor_reshape.server.calls.admission import Admission
from tensor_reshape.server.calls.router import Submit
from tensor_reshape.server.calls.threaded import (
    CALL_THREADS,
    WORK_THREADS,
    ThreadedHandlers,
    ThreadedStream,
    ThreadedUnary,
    build_permissions,
)
from tensor_reshape.server.config import Config, ConfigError
from tensor_reshape.server.process.pools import start_threads
from tensor_reshape.server.service.methods import MethodTable, Work

_LOGGER = logging.getLogger(__name__)


def build_handlers(
    methods: MethodTable, admission: Admission, config: Config, threads: ThreadPoolExecutor
) -> "ThreadedHandlers | InlineHandlers":
    """Returns how calls are served: as `config.serving` says.

    Raises:
        ConfigError: inline, and the installed grpcio does not allow it.
    """
    if config.serving == "threads":
        return ThreadedHandlers(methods, admission, config.threads)
    if core_calls.is_supported() and serving_loops.is_supported():
        return InlineHandlers(methods, admission, threads, config.threads)
    message = f"grpcio {grpc.__version__} cannot serve inline"
    if config.serving == "inline":
        raise ConfigError(message)
    _LOGGER.warning(message)
    return ThreadedHandlers(methods, admission, config.threads)


class InlineHandlers(grpc.GenericRpcHandler):
    """The service's methods, for `inline.InlinePool` to serve.

    Attributes:
        direct: what begins the calls of each unary method, for `serving_loops`.
        routes: what serves the calls that grpcio hands over: streams, and where interceptors are, all.
    """

    def __init__(
        self, methods: MethodTable, admission: Admission, threads: ThreadPoolExecutor, max_working: int
    ) -> None:
        """Serves `methods` within `admission`; `threads` are for what takes long.

        Behind interceptors, calls are served by threads, which work on `max_working` of them at once.
        """
        # Threads that only a wrapped call needs are started with the first one: most servers have none, and 256 stacks
        # would be a good part of a small address space.
        pool = inline.InlinePool(max_workers=CALL_THREADS, thread_name_prefix="wrapped")
        receivers = ThreadPoolExecutor(max_workers=CALL_THREADS, thread_name_prefix="receiver")
        admission.limit_threads(CALL_THREADS, pool.are_short)
        # Calls that wait for each other: on the threads of others, a few of them would keep all others waiting.
        others = {work: start_threads(count, work.name.lower()) for work, count in WORK_THREADS.items()}
        pools = {Work.TENSORS: threads, **others}
        permissions = build_permissions(max_working)
        self._handlers: dict[str, grpc.RpcMethodHandler[bytes, bytes]] = {}
        self.direct: dict[str, serving_loops.OpenCall] = {}
        for method in methods.unary:
            unary = inline.UnaryPlan(admission, pools, partial(ThreadedUnary, method, permissions), method)
            self._handlers[method.name] = grpc.stream_unary_rpc_method_handler(unary)
            self.direct[method.name] = unary.open
        for stream in methods.streams:
            fall_back = partial(ThreadedStream, stream, receivers)
            plan = inline.StreamPlan(admission, pools, fall_back, stream)
            self._handlers[stream.name] = grpc.stream_stream_rpc_method_handler(plan)
        self.routes: Mapping[str, Submit] = dict.fromkeys(self._handlers, pool.submit)

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> "grpc.RpcMethodHandler[bytes, bytes] | None":
        """Returns how a method's calls are served."""
        return self._handlers.get(handler_call_details.method)
