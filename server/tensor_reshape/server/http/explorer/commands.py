"""The command `tensor-reshape explore`, which serves the explorer to the user of this machine.

- The command listens only on loopback, and rejects requests whose Host header does not name this machine.
- The command computes shapes in its own process and starts no gRPC server.
"""

import asyncio
import socket
import threading
import webbrowser
from contextlib import suppress

import click
import uvicorn
from starlette.requests import ClientDisconnect, Request
from starlette.types import ASGIApp, Receive, Scope, Send

from tensor_reshape.rules.limits import DEFAULT_LIMITS
from tensor_reshape.server.calls.call_info import CallInfo
from tensor_reshape.server.calls.statuses import build_failure
from tensor_reshape.server.http.apps import build_app, build_health_route, build_method_routes, build_openapi_route
from tensor_reshape.server.http.explorer.pages import build_routes
from tensor_reshape.server.http.json_methods import build_json_methods
from tensor_reshape.server.http.ports import prepare_listener
from tensor_reshape.server.http.requests import LOCAL_HOSTS, read_message, read_metadata
from tensor_reshape.server.http.responses import JSON_FORM, Form
from tensor_reshape.server.process.fair_locks import FairLock
from tensor_reshape.server.service.method_tables import Method
from tensor_reshape.server.service.methods import ReshapeService
from tensor_reshape.server.settings.serving import ServingSettings

_HOST = "127.0.0.1"


@click.command()
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=0,
    show_default=True,
    help="Port on 127.0.0.1. 0 = any free port.",
)
@click.option("--open/--no-open", "opens", default=True, show_default=True, help="Open the page in a browser.")
def explore(*, port: int, opens: bool) -> None:
    """Show the shape explorer in a browser until you press Ctrl-C.

    Enter a shape query on the page to see its result, a drawing of it, and the query as code. The command computes the
    result in its own process, without a server.
    """
    service = ReshapeService(DEFAULT_LIMITS, make_turns=FairLock)
    routes = [
        *build_method_routes(serve_call, build_json_methods(service)),
        *build_routes(serve_call, service, ServingSettings.listen),  # the default address of the command `serve`
        build_health_route(lambda: True),
        build_openapi_route(),
    ]
    listener = _listen(port)  # until the server runs, the operating system keeps new connections waiting
    link = f"http://{_HOST}:{listener.getsockname()[1]}/"
    app = build_app(routes, LOCAL_HOSTS)
    config = uvicorn.Config(
        _open_when_started(app, link) if opens else app,
        lifespan="on" if opens else "off",
        log_level="warning",
        server_header=False,
        ws="none",
        timeout_graceful_shutdown=1,
    )
    with suppress(KeyboardInterrupt):  # at Ctrl-C, uvicorn stops and then raises the signal again
        click.echo(link)
        uvicorn.Server(config).run(sockets=[listener])


def _open_when_started(app: ASGIApp, link: str) -> ASGIApp:
    """Returns the app, and opens a browser when the server starts. From then on, Ctrl-C ends the server in order."""

    async def run(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "lifespan":
            await app(scope, receive, send)
            return
        await receive()
        # a separate thread opens the browser, because `open` may wait until the browser ends
        threading.Thread(target=webbrowser.open, args=(link,), daemon=True).start()
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await send({"type": "lifespan.shutdown.complete"})

    return run


def _listen(port: int) -> socket.socket:
    try:
        listener = socket.create_server((_HOST, port))
    except OSError as error:
        message = f"cannot listen on {_HOST}:{port}: {error.strerror}"
        raise click.ClickException(message) from None
    prepare_listener(listener)
    return listener


async def serve_call(method: Method, request: Request, send: Send, *, form: Form = JSON_FORM) -> None:
    """Runs a method without authorization and without a memory budget (see `ServeCall`)."""
    info = CallInfo(method.name, read_metadata(request))
    try:
        message = await read_message(request)
        response = form.build_response(await asyncio.to_thread(method.respond, message, lambda: False))
    except ClientDisconnect:
        return
    except Exception as error:  # noqa: BLE001 - the client gets no details of a bug
        response = form.build_rejection(build_failure(error, info))
    await response(request.scope, request.receive, send)
