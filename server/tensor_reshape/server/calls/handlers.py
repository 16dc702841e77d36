"""What grpcio asks for the handler of a method, in each of the two ways: `inline` or `threaded`."""

import logging
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from types import MappingProxyType
from typing import Any, NoReturn, TypeAlias

import grpc

from tensor_reshape.rules.errors import ReshapeError
from tensor_reshape.server.calls import core_calls, inline, serving_loops
from tensor_reshape.server.calls.admission import Admission
from tensor_reshape.server.calls.reserves import ReservedThreads
from tensor_reshape.server.calls.router import Submit
from tensor_reshape.server.calls.serving_loops import OpenCall
from tensor_reshape.server.calls.threaded import (
    CALL_THREADS,
    WORK_THREADS,
    CallThreads,
    ThreadedCall,
    ThreadedStream,
    ThreadedUnary,
    build_permissions,
)
from tensor_reshape.server.config import Config, ConfigError
from tensor_reshape.server.process.pools import start_all, start_threads
from tensor_reshape.server.service.methods import MethodTable, Work

RESERVED_THREADS = 32
"""How many of the threads that calls hold are for connections that hold none."""

_Behavior: TypeAlias = Callable[..., Any]
_LOGGER = logging.getLogger(__name__)
_CANNOT_SERVE_INLINE = f"grpcio {grpc.__version__} cannot serve inline"


def build_handlers(
    methods: MethodTable, admission: Admission, config: Config, threads: ThreadPoolExecutor
) -> "ThreadedHandlers | InlineHandlers":
    """Returns how calls are served: as `config.serving` says.

    Raises:
        ConfigError: inline, and the installed grpcio does not allow it.
    """
    serving = choose_serving(config.serving)
    if serving == "inline":
        return InlineHandlers(methods, admission, threads, config.threads)
    if config.serving != serving:
        _LOGGER.warning(_CANNOT_SERVE_INLINE)
    return ThreadedHandlers(methods, admission, config.threads)


def choose_serving(asked: str) -> str:
    """Returns "inline" or "threads": what `Config.serving` comes to with the installed grpcio.

    Raises:
        ConfigError: inline, and the installed grpcio does not allow it.
    """
    if asked == "threads":
        return asked
    if core_calls.is_supported() and serving_loops.is_supported():
        return "inline"
    if asked == "inline":
        raise ConfigError(_CANNOT_SERVE_INLINE)
    return "threads"


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


class ThreadedHandlers(grpc.GenericRpcHandler):
    """Admits calls when they arrive, and has threads serve them.

    Attributes:
        direct: nothing: grpcio makes a state of every call.
        routes: what serves the calls of each method.
    """

    direct: Mapping[str, OpenCall] = MappingProxyType({})

    def __init__(self, methods: MethodTable, admission: Admission, max_working: int) -> None:
        """Serves `methods` within `admission`, and works on so many calls at once."""
        self._admission = admission
        self._methods = {method.name: method for method in methods.unary}
        self._streams = {stream.name: stream for stream in methods.streams}
        self._permissions = build_permissions(max_working)
        # A thread for each call that waits for its message, and for each stream a second one: it may have both at once.
        shared = CALL_THREADS - RESERVED_THREADS
        self._threads = start_all(CallThreads(shared, "receive"), shared)
        reserve = start_threads(RESERVED_THREADS, "reserve")
        self._receivers = start_threads(CALL_THREADS, "receiver")
        # Refusals are short, and must not wait behind the very calls because of which they are refused.
        self._refusals = start_threads(1, "refusal")
        admission.limit_threads(CALL_THREADS, self._threads.are_short)
        self.routes: Mapping[str, Submit] = dict.fromkeys(
            (*self._methods, *self._streams),
            ReservedThreads(self._threads, reserve, RESERVED_THREADS).submit,
        )

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> "grpc.RpcMethodHandler[bytes, bytes] | None":
        """Returns how one call is served; called on the thread that receives calls."""
        name = handler_call_details.method
        if name in self._streams:
            stream = ThreadedStream(self._streams[name], self._receivers, self._admission)
            return grpc.stream_stream_rpc_method_handler(self._admit(stream, stream.run, handler_call_details))
        method = self._methods.get(name)
        if method is None:
            return None
        unary = ThreadedUnary(method, self._permissions, self._admission)
        return grpc.stream_unary_rpc_method_handler(self._admit(unary, unary.run, handler_call_details))

    def _admit(
        self, call: "ThreadedUnary | ThreadedStream", run: _Behavior, details: grpc.HandlerCallDetails
    ) -> _Behavior:
        """Returns what serves the call: `run`, or its refusal, which has a thread where no call waits for a message."""
        try:
            call.enter(details.invocation_metadata)
        except ReshapeError as error:
            refusal = partial(_refuse, call, error)
            refusal.experimental_thread_pool = self._refusals  # type: ignore[attr-defined] # where grpcio looks for it
            return refusal
        return run


def _refuse(call: ThreadedCall, error: ReshapeError, requests: object, context: grpc.ServicerContext) -> NoReturn:
    del requests
    call.refuse_entrance(error, context)
