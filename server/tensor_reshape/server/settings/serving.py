"""Settings for addresses, processes and shutdown."""

from dataclasses import dataclass
from typing import Annotated

from tensor_reshape.server.settings.declarations import Declaration

MAX_STOP_SECONDS = 3600
"""Maximum value of --drain-seconds and of --shutdown-grace-seconds."""


@dataclass(frozen=True, kw_only=True)
class ServingSettings:
    """Addresses, processes and shutdown."""

    listen: Annotated[
        tuple[str, ...],
        Declaration(
            help="Address that serves calls: host:port (port 0 = any free port) or unix:PATH. You can repeat the "
            "option. In the environment variable, separate addresses by spaces.",
            metavar="ADDRESS",
        ),
    ] = ("127.0.0.1:50051",)  # the default is loopback, because an operator must decide to serve a network

    health_listen: Annotated[
        str | None,
        Declaration(
            help="Address (host:port or unix:PATH) that serves only health checks, always without TLS. Use it for "
            "probes.",
            metavar="ADDRESS",
        ),
    ] = None

    http_listen: Annotated[
        str | None,
        Declaration(
            help="Address (host:port) that serves the API as JSON and Connect over HTTP, a page to try it, and the "
            "Open Inference Protocol over REST, in a process of its own. The address uses TLS if the server uses "
            "TLS. Needs the extra http.",
            metavar="ADDRESS",
        ),
    ] = None

    http_allow_origin: Annotated[
        tuple[str, ...],
        Declaration(
            help="Origin of web pages that may call the HTTP port from a browser, for example https://shapes.example. "
            "You can repeat the option. In the environment variable, separate origins by spaces. Without it, pages of "
            "other origins are rejected.",
            metavar="ORIGIN",
        ),
    ] = ()

    workers: Annotated[
        int,
        Declaration(
            help="Number of processes that share the ports. If the number is above 1, a supervisor replaces workers "
            "that exit or hang.",
            least=1,
            most=256,
        ),
    ] = 1

    drain_seconds: Annotated[
        float,
        Declaration(
            help="Seconds to report NOT_SERVING before the server stops accepting calls.",
            least=0,
            most=MAX_STOP_SECONDS,
        ),
    ] = 0.5  # a container has 10 s for the drain period, the grace period, and a second for clients to disconnect

    shutdown_grace_seconds: Annotated[
        float,
        Declaration(
            help="Seconds that running calls may take to finish after the drain period.",
            least=0,
            most=MAX_STOP_SECONDS,
        ),
    ] = 8.0
