"""The command `tensor-reshape http` serves only HTTP, and `tensor-reshape explore` shows the shape explorer."""

import threading
import webbrowser
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import click
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.registry import Collector

from tensor_reshape.server.config import SETTINGS, STOP_SIGNALS, VARIABLE_PREFIX, Config, ConfigError
from tensor_reshape.server.http.applications import Application
from tensor_reshape.server.http.asgi import Reply
from tensor_reshape.server.http.servers import HttpServer, serve_until_signal
from tensor_reshape.server.options import build_config, build_option
from tensor_reshape.server.process.logs import configure_logs
from tensor_reshape.server.process.resources import raise_descriptor_limit
from tensor_reshape.server.process.signals import ignore_signals
from tensor_reshape.server.startup_log import announce
from tensor_reshape.server.telemetry.metrics import SharedCounters, list_methods
from tensor_reshape.server.telemetry.prometheus import OnlyProcess, build_registry, serve_metrics

# The command has no options for the settings of gRPC and the supervisor. Its option --listen sets `http_listen`.
_OMITTED = {"listen", "health_listen", "http_listen", "workers", "max_connection_age_seconds"}
_LISTEN = click.option(
    "--listen",
    "http_listen",
    envvar=f"{VARIABLE_PREFIX}_HTTP_LISTEN",
    default="127.0.0.1:8080",
    show_default=True,
    metavar="ADDRESS",
    help="Address (host:port) that serves HTTP.",
)
_SETTINGS = {setting.name: setting for setting in SETTINGS}


@click.command(
    context_settings={"auto_envvar_prefix": VARIABLE_PREFIX, "help_option_names": ["-h", "--help"]},
    params=[build_option(setting) for setting in SETTINGS if setting.name not in _OMITTED],
)
@_LISTEN
def http(**values: Any) -> None:
    """Serve tensor reshape over HTTP only, and not over gRPC, until SIGTERM, SIGINT or SIGHUP.

    The server supports JSON, Connect and the Open Inference Protocol over REST. It also has the page of the shape
    explorer.

    You can set every option in the environment, for example --max-calls as TENSOR_RESHAPE_MAX_CALLS. A flag overrides
    its variable. `tensor-reshape serve --http-listen` serves both gRPC and HTTP.
    """
    try:
        configure_logs(values["log_format"], values["log_level"])
        raise_descriptor_limit()
        _serve(_build_config(values))
    except ConfigError as error:
        raise click.ClickException(str(error)) from error


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
    try:
        configure_logs("text", "warning")
        server = HttpServer(Config(http_listen=f"127.0.0.1:{port}", drain_seconds=0, shutdown_grace_seconds=1))
    except ConfigError as error:
        raise click.ClickException(str(error)) from error
    link = f"http://{server.address}/"

    def announce() -> None:
        click.echo(link)
        if opens:
            # A separate thread opens the browser, because `webbrowser.open` may wait until the browser ends.
            threading.Thread(target=webbrowser.open, args=(link,), daemon=True).start()

    serve_until_signal(server, announce)


def build_from_environment() -> Application:
    """Returns the ASGI application, with the settings from environment variables.

    Raises:
        ConfigError: a setting is invalid, or the settings conflict.
    """
    config, counters, scrape = read_environment()
    return Application(config, counters=counters, scrape=scrape)


def read_environment() -> tuple[Config, SharedCounters, Callable[[], Reply]]:
    """Returns the configuration from environment variables, the memory for metrics, and the route `/metrics`.

    Raises:
        ConfigError: a setting is invalid, or only `HttpServer` supports it.
    """
    try:
        context = http.make_context("http", [])
    except click.UsageError as error:
        raise ConfigError(error.format_message()) from error
    with context:
        config = _build_config(context.params)
    if config.tls_client_ca is not None:
        message = "other ASGI servers pass on no client certificates: use `tensor-reshape http` with --tls-client-ca"
        raise ConfigError(message)
    return config, *_build_metrics()[:2]


def _build_config(values: dict[str, Any]) -> Config:
    defaults = {name: _SETTINGS[name].default for name in _OMITTED}
    return build_config({**defaults, "listen": (), **values})


def _build_metrics() -> tuple[SharedCounters, Callable[[], Reply], Collector]:
    counters = SharedCounters(list_methods())
    registry = build_registry([(OnlyProcess(), counters)])
    return counters, lambda: Reply(200, (generate_latest(registry),), CONTENT_TYPE_LATEST), registry


def _serve(config: Config) -> None:
    """Serves HTTP until a stop signal arrives.

    Raises:
        ConfigError: the server cannot start with this configuration.
    """
    counters, scrape, registry = _build_metrics()
    server = HttpServer(config, Application(config, counters=counters, scrape=scrape))
    listen = config.metrics_listen
    with nullcontext() if listen is None else serve_metrics(listen, registry):
        serve_until_signal(server, lambda: announce((), config, http_address=server.address))
    ignore_signals(STOP_SIGNALS)
