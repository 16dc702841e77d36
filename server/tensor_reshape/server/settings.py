"""The server's settings. Each setting is declared once.

- A setting is a field of a dataclass for its group. The annotation of the field contains a `Declaration`, for example
  `Annotated[int, Declaration(...)]`. The field has the name, the type and the default of the setting.
- The flags, `--help`, the environment variables, the validation and the table in the documentation are all generated
  from the declarations.
- The name of a setting ends with its unit, `_bytes` or `_seconds`. A number without a unit is a count or a fraction.
"""

from dataclasses import dataclass, fields
from pathlib import Path
from types import NoneType
from typing import Annotated, Any, get_args

from tensor_reshape.rules.limits import MAX_MESSAGE_BYTES, MAX_PROTOBUF_BYTES

MAX_STOP_SECONDS = 3600
"""Maximum value of --drain-seconds and of --shutdown-grace-seconds."""

LEAST_BUDGET_FACTOR = 8
"""Minimum memory budget of a worker, as a multiple of --max-message-bytes.

The call that needs the most memory is a stream with a strided tensor of the maximum size. It needs this multiple.
"""

MIN_MESSAGE_BYTES = 1024
"""Minimum value of --max-message-bytes."""

MEMORY_BUDGET_BYTES = 2**30
"""Default memory budget in bytes, if the system has enough memory."""

MAX_TRANSPORT_SECONDS = 86400 * 20
"""Maximum value of a connection timeout in seconds. gRPC stores such a timeout as milliseconds in 32 bits."""

_NO_QUOTA = "The limit applies in each process. 0 = no limit."

LOG_LEVELS = ("debug", "info", "warning", "error")

VARIABLE_PREFIX = "TENSOR_RESHAPE"
"""Prefix of the names of environment variables for settings. An underscore follows the prefix."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Declaration:
    """Facts about a setting in addition to its type and default.

    Attributes:
        help: the text that explains the setting in `--help` and the documentation.
        least: the smallest valid number, or None for no limit.
        most: the largest valid number, or None for no limit.
        choices: the valid words. An empty tuple admits any text.
        ignores_case: whether the words may also be written in capitals.
        metavar: the placeholder of a value in `--help`. If `metavar` is empty, `--help` shows the placeholder for the
            type.
        system_default: the description of a default that depends on the system.
    """

    help: str
    least: float | None = None
    most: float | None = None
    choices: tuple[str, ...] = ()
    ignores_case: bool = False
    metavar: str = ""
    system_default: str = ""


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting, which is a dataclass field with its declaration.

    Attributes:
        name: the name of the field.
        type: the type of one value of the setting, which is bool, int, float, str or Path.
        is_repeatable: whether users may give the setting several times, so that its value is a tuple.
        default: the default of the field.
        declaration: the help text, the bounds and other facts about the setting.
    """

    name: str
    type: type
    is_repeatable: bool
    default: Any
    declaration: Declaration

    @property
    def flag(self) -> str:
        """The command-line flag."""
        return f"--{self.name.replace('_', '-')}"

    @property
    def variable(self) -> str:
        """The environment variable."""
        return f"{VARIABLE_PREFIX}_{self.name.upper()}"

    @property
    def is_size(self) -> bool:
        """Whether the setting is a size in bytes, which users may write with a unit."""
        return self.name.endswith("_bytes")

    @property
    def bounds(self) -> str:
        """The description of the valid values, or an empty text if every value of the type is valid."""
        declared = self.declaration
        if declared.choices:
            return " or ".join(declared.choices)
        if declared.least is None:
            return ""
        return f"at least {declared.least}" if declared.most is None else f"{declared.least} to {declared.most}"

    def admits(self, value: Any) -> bool:  # noqa: ANN401 - of the setting's type
        """Returns whether a value of the setting's type is within its bounds."""
        declared = self.declaration
        if declared.choices and value not in declared.choices:
            return False
        # Every comparison with NaN is false, so the check is not `value < least`, which would accept NaN.
        return (declared.least is None or value >= declared.least) and (declared.most is None or value <= declared.most)


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


@dataclass(frozen=True, kw_only=True)
class BoundSettings:
    """Limits of messages, memory, calls and connections."""

    max_message_bytes: Annotated[
        int,
        Declaration(
            help="Maximum size of a request and of an output.",
            least=MIN_MESSAGE_BYTES,
            most=MAX_PROTOBUF_BYTES,
        ),
    ] = MAX_MESSAGE_BYTES

    memory_budget_bytes: Annotated[
        int,
        Declaration(
            help="Memory that all running calls may use together. Each worker needs at least "
            f"{LEAST_BUDGET_FACTOR} times --max-message-bytes. The process for HTTP gets half of a worker's share.",
            least=MIN_MESSAGE_BYTES,
            system_default="1 GiB, or half of the available memory if that is less",
        ),
    ] = MEMORY_BUDGET_BYTES

    max_calls: Annotated[
        int,
        Declaration(
            help="Maximum number of running calls. The server rejects further calls. The process for HTTP has the "
            "same limit for its own calls.",
            least=1,
        ),
    ] = 2048

    stall_timeout_seconds: Annotated[
        float,
        Declaration(
            help="Seconds without progress after which the server aborts a call. The time is shorter if other calls "
            "need the memory of the call.",
            least=0.1,
        ),
    ] = 30.0

    max_connection_age_seconds: Annotated[
        float,
        Declaration(
            help="Seconds, plus or minus 10 %, after which the server closes a connection gracefully, so that the "
            "client reconnects. Running calls continue. 0 = no limit.",
            least=0,
            most=MAX_TRANSPORT_SECONDS,
        ),
    ] = 600.0  # after about this time, a server that was added to a load balancer receives its share of the calls


@dataclass(frozen=True, kw_only=True)
class QuotaSettings:
    """Limits of each caller.

    A caller is an identity, or a host if clients do not authenticate. By default, callers have no quota, because a host
    may be a proxy for all clients. Even without quotas, the hosts share the capacity of the server fairly.
    """

    trusted_proxy: Annotated[
        tuple[str, ...],
        Declaration(
            help="IP address or network of a trusted proxy, or unix: for unix sockets. You can repeat the option. For "
            "calls from such a proxy, quotas and fair sharing use the last address in x-forwarded-for as the address "
            "of the caller. The server ignores this header in other calls.",
            metavar="ADDRESS",
        ),
    ] = ()

    max_calls_per_caller: Annotated[
        int, Declaration(help=f"Maximum number of running calls of one caller. {_NO_QUOTA}", least=0)
    ] = 0

    max_calls_per_caller_per_second: Annotated[
        float,
        Declaration(
            help="Maximum average number of calls that one caller may start per second. A caller may start this "
            f"number of calls at once. {_NO_QUOTA}",
            least=0,
            most=1_000_000,
        ),
    ] = 0.0


@dataclass(frozen=True, kw_only=True)
class CallerSettings:
    """TLS, authentication and authorization."""

    tls_certificate: Annotated[
        Path | None, Declaration(help="PEM file with the server's certificate chain. Needs --tls-key.")
    ] = None

    tls_key: Annotated[Path | None, Declaration(help="PEM file with the private key of the certificate.")] = None

    tls_client_ca: Annotated[
        Path | None,
        Declaration(
            help="PEM file with a certificate authority. Clients must present a certificate that the authority has "
            "signed. Without this option, clients need no certificate."
        ),
    ] = None

    token_file: Annotated[
        Path | None,
        Declaration(
            help="File with bearer tokens, one per line: NAME:TOKEN or NAME:sha256:HEX. Each call must send one of "
            "the tokens. Without this option, calls need no token."
        ),
    ] = None

    allow_plaintext_tokens: Annotated[
        bool,
        Declaration(
            help="Accept tokens without TLS on addresses that other machines can reach. Use it only if something else "
            "encrypts the connections, for example a service mesh."
        ),
    ] = False

    authorization_file: Annotated[
        Path | None,
        Declaration(
            help="TOML file with the methods that each identity may call. Without this option, authenticated callers "
            "may call every method."
        ),
    ] = None


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


def list_settings(declaring: type) -> tuple[Setting, ...]:
    """Returns the settings of a dataclass in the order of its fields. Every field must be a setting."""
    settings = []
    for field in fields(declaring):
        annotated, declaration = get_args(field.type)
        # For tuple[str, ...] and Path | None, `get_args` returns the type of a value. Types such as int have no
        # arguments.
        (kind, *_) = [one for one in get_args(annotated) if one not in {..., NoneType}] or [annotated]
        settings.append(Setting(field.name, kind, isinstance(field.default, tuple), field.default, declaration))
    return tuple(settings)
