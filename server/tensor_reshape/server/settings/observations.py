"""What a server tells its operators."""

from dataclasses import dataclass
from typing import Annotated

from tensor_reshape.server.settings.declarations import Declaration


@dataclass(frozen=True, kw_only=True)
class ObservationSettings:
    """What a server tells its operators."""

    log_format: Annotated[str, Declaration(help="The form of the logs.", choices=("text", "json"))] = "text"

    log_level: Annotated[
        str,
        Declaration(help="debug logs every refusal.", choices=("debug", "info", "warning", "error"), ignores_case=True),
    ] = "info"

    metrics_listen: Annotated[
        str | None,
        Declaration(
            help="host:port where Prometheus reads GET /metrics, in plain HTTP: for a network of the operator's own.",
            metavar="ADDRESS",
        ),
    ] = None

    channelz: Annotated[
        bool,
        Declaration(
            help="Whether callers may ask what gRPC knows of the connections, as grpcdebug does: callers that have to "
            "say who they are, or of this machine."
        ),
    ] = False

    tracing: Annotated[
        bool,
        Declaration(
            help="Tell OpenTelemetry of each call, by OTLP over HTTP; its own variables say where to, of how many "
            "calls, and under which name. Needs the extra tracing."
        ),
    ] = False
