"""What a server tells its operators."""

from dataclasses import dataclass
from typing import Annotated

from tensor_reshape.server.settings.declarations import Declaration

LOG_LEVELS = ("debug", "info", "warning", "error")


@dataclass(frozen=True, kw_only=True)
class ObservationSettings:
    """What a server tells its operators."""

    log_format: Annotated[str, Declaration(help="The form of the logs.", choices=("text", "json"))] = "text"

    log_level: Annotated[
        str,
        Declaration(
            help="info logs calls that are refused or fail, ten a second of each kind; debug all of them.",
            choices=LOG_LEVELS,
            ignores_case=True,
        ),
    ] = "info"

    access_log: Annotated[
        float,
        Declaration(
            help="The part of all calls that are logged when they are over, by chance: 0 none, 1 all.",
            least=0,
            most=1,
            metavar="RATE",
        ),
    ] = 0.0

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
