"""Settings for logs, metrics and tracing."""

from dataclasses import dataclass
from typing import Annotated

from tensor_reshape.server.settings.declarations import Declaration

LOG_LEVELS = ("debug", "info", "warning", "error")


@dataclass(frozen=True, kw_only=True)
class ObservationSettings:
    """Logs, metrics and tracing."""

    log_format: Annotated[str, Declaration(help="Format of the log lines.", choices=("text", "json"))] = "text"

    log_level: Annotated[
        str,
        Declaration(
            help="Lowest level that is logged. info includes calls that fail or are rejected, up to ten lines per "
            "second of each kind. debug has no such limit, and includes every call when it ends.",
            choices=LOG_LEVELS,
            ignores_case=True,
        ),
    ] = "info"

    metrics_listen: Annotated[
        str | None,
        Declaration(
            help="Address (host:port) that serves metrics to Prometheus over plain HTTP without authentication. Use an "
            "address that only Prometheus can reach. Without this option, the server collects no metrics.",
            metavar="ADDRESS",
        ),
    ] = None

    tracing: Annotated[
        bool,
        Declaration(
            help="Send a span for each call to OpenTelemetry, by OTLP over HTTP. Configure the exporter and the "
            "sampler with OpenTelemetry's environment variables. Needs the extra tracing."
        ),
    ] = False
