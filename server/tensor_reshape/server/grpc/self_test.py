"""A test call, which shows whether the package `grpc` can serve with the installed grpcio."""

import inspect
import secrets
import sys
from functools import cache, partial
from threading import Event

import grpc

from tensor_reshape.server.calls.sources import Source
from tensor_reshape.server.config import ConfigError
from tensor_reshape.server.grpc.binding import NAMES, TESTED, check_release, load
from tensor_reshape.server.grpc.calls import Call
from tensor_reshape.server.grpc.servers import Route, Server

_METHOD = "/test"
_MESSAGE = b"message"
_PAIR = ("test", "value")
_SECONDS = 10.0
_NAME_BYTES = 16
_OPTIONS = (("grpc.so_reuseport", 0), ("grpc.enable_http_proxy", 0))


@cache
def check_core() -> None:
    """Checks that a call through this package works. After a success, later calls of this function do nothing.

    Raises:
        ConfigError: the release of grpcio is not tested, grpcio lacks a name that this package uses, or the call fails.
    """
    check_release()
    missing = [name for name in NAMES if not hasattr(load(), name)]
    try:
        fault = f"it has no cygrpc.{missing[0]}" if missing else _make_call()
    except Exception as error:  # noqa: BLE001 - after any exception, the server must not start
        cause = error.code().name if isinstance(error, grpc.Call) else type(error).__name__
        fault = f"a test call of the server to itself failed: {cause}"
    if fault:
        message = f"cannot serve with grpcio {grpc.__version__}: {fault}. Run pip install --force-reinstall '{TESTED}'"
        raise ConfigError(message)


def _make_call() -> str:
    """Makes a call from this process to itself, with metadata, a message, a response and a status.

    Returns:
        the fault, or an empty text.
    """
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
        if not over.is_set():
            server.cancel_calls()
        server.wait(_SECONDS)
    return "" if response == _MESSAGE and ended else "a test call had a wrong response or did not end"
