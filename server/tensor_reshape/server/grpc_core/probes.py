"""A test call, which shows whether the package `grpc_core` can serve in this process."""

import inspect
import secrets
import sys
from functools import cache, partial
from threading import Event

import grpc

from tensor_reshape.server.engine.sources import Source
from tensor_reshape.server.grpc_core.binding import CoreUnavailableError, load

_METHOD = "/probe"
_MESSAGE = b"message"
_PAIR = ("probe", "value")
_SECONDS = 10.0
_NAME_BYTES = 16
_OPTIONS = (("grpc.so_reuseport", 0), ("grpc.enable_http_proxy", 0))


@cache
def find_obstacle() -> str:
    """Returns the reason why `grpc_core` cannot serve in this process, or "" if it can serve."""
    if inspect.unwrap(grpc.server) is not grpc.server or grpc.server.__module__ != "grpc":
        return "grpc.server was replaced, for example by an instrumentation whose interceptors must see all calls"
    try:
        load()
        _make_call()
    except CoreUnavailableError as error:
        return str(error)
    except Exception as error:  # noqa: BLE001 - any exception shows that this package cannot be used
        return f"a call through grpcio {grpc.__version__} failed: {type(error).__name__}"
    return ""


def _make_call() -> None:
    """Makes a call from this process to itself, with metadata, a message, a response and a status.

    Raises:
        CoreUnavailableError: the server or the client did not receive the data that the other side has sent.
    """
    from tensor_reshape.server.grpc_core.calls import Call  # noqa: PLC0415 - only after `load` has checked the names
    from tensor_reshape.server.grpc_core.servers import Route, Server  # noqa: PLC0415

    over = Event()

    class _Echo(Call):
        """Returns the request message."""

        def begin(self) -> None:
            self.receive()

        def on_message(self, raw: bytes | None) -> None:
            with self.lock:
                if raw is not None and _PAIR in self.info.metadata:
                    self.send(raw)

        def on_sent(self, size: int) -> None:
            del size
            self.finish()

        def on_over(self) -> None:
            if not self.is_gone:
                over.set()

    routes = {_METHOD: Route.without_limit(partial(_Echo, _METHOD))}
    server = Server(routes, _Echo, lambda _new: Source("", ""), _OPTIONS)
    # On Linux the test call uses an abstract unix socket. An abstract unix socket has no file and no port that could be
    # confused with those of the server.
    target = f"unix-abstract:{secrets.token_hex(_NAME_BYTES)}" if sys.platform == "linux" else "127.0.0.1:0"
    port = server.add_port(target, None)
    address = target if target.startswith("unix") else f"127.0.0.1:{port}"
    server.start()
    try:
        # `unwrap` removes wrappers of tracing libraries, because this test call must not appear in a trace.
        with inspect.unwrap(grpc.insecure_channel)(address, options=_OPTIONS) as channel:
            call: grpc.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(_METHOD)
            response = call(_MESSAGE, metadata=(_PAIR,), timeout=_SECONDS, wait_for_ready=True)
            ended = over.wait(_SECONDS)
    finally:
        server.stop()
        server.cancel_calls()
        server.wait(_SECONDS)
    if response != _MESSAGE or not ended:
        message = f"a test call through grpcio {grpc.__version__} had a wrong response or did not end"
        raise CoreUnavailableError(message)
