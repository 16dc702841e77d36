"""`tensor-reshape explore`: the explorer alone, for the user of this machine.

Laws: it listens on loopback and nowhere else, and answers those alone who name this machine; the rules answer in this
process, and no gRPC server is started.
"""

import socket
import threading
import webbrowser
from collections.abc import Callable
from contextlib import suppress

import click
import uvicorn

from tensor_reshape.rules.limits import DEFAULT_LIMITS
from tensor_reshape.server.engine.fair_locks import FairLock
from tensor_reshape.server.http.apps import build_app, build_contract_route, build_health_route, build_method_routes
from tensor_reshape.server.http.askers import ask_here
from tensor_reshape.server.http.explorer.pages import build_routes
from tensor_reshape.server.http.json_methods import build_json_methods
from tensor_reshape.server.http.requests import LOCAL_HOSTS
from tensor_reshape.server.service.methods import ReshapeService
from tensor_reshape.server.settings.serving import ServingSettings

_HOST = "127.0.0.1"


@click.command()
@click.option(
    "--port", type=click.IntRange(0, 65535), default=0, show_default=True, help="On 127.0.0.1; 0: a free one."
)
@click.option("--open/--no-open", "opens", default=True, show_default=True, help="Open the page in a browser.")
def explore(*, port: int, opens: bool) -> None:
    """Show the shape explorer in a browser, until Ctrl-C.

    A page on which one types a shape question and sees the answer, a drawing of it, and the question as code. It is
    answered in this process, without a server.
    """
    listener = _listen(port)
    link = f"http://{_HOST}:{listener.getsockname()[1]}/"

    def show() -> None:
        click.echo(link)
        if opens:  # by a thread: some browsers are waited for, which would wait for this page
            threading.Thread(target=webbrowser.open, args=(link,), daemon=True).start()

    _serve(listener, show)


def _listen(port: int) -> socket.socket:
    try:
        listener = socket.create_server((_HOST, port))
    except OSError as error:
        message = f"cannot listen on {_HOST}:{port}: {error.strerror}"
        raise click.ClickException(message) from None
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # else an answer takes 40 ms: see `HttpPort`
    return listener


class _Server(uvicorn.Server):
    """Says when it serves."""

    def __init__(self, config: uvicorn.Config, say: Callable[[], None]) -> None:
        """Calls `say` then."""
        super().__init__(config)
        self._say = say

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begins to serve."""
        await super().startup(sockets)
        self._say()


def _serve(listener: socket.socket, say: Callable[[], None]) -> None:
    service = ReshapeService(DEFAULT_LIMITS, make_turns=FairLock)
    routes = [
        *build_method_routes(ask_here, build_json_methods(service)),
        *build_routes(ask_here, service, ServingSettings.listen),  # where `serve` is, if it is started too
        build_health_route(lambda: True),
        build_contract_route(),
    ]
    app = build_app(routes, LOCAL_HOSTS)
    config = uvicorn.Config(
        app, lifespan="off", log_level="warning", server_header=False, ws="none", timeout_graceful_shutdown=1
    )
    with suppress(KeyboardInterrupt):  # uvicorn has stopped by then, and passes it on
        _Server(config, say).run(sockets=[listener])
