"""Declares each setting of the server once, and defines the class `Config`, which checks all values together.

- A setting is a field of a dataclass, and each dataclass has one group of settings. The field has the name, the type
  and the default of the setting, and `declare` adds its help text and bounds. The flags, `--help`, the environment
  variables, the validation and the table in the documentation are all generated from these declarations.
- The name of a setting ends with its unit, `_bytes` or `_seconds`. A number without a unit is a count or a fraction.
- If a new setting limits the reshape rules, also add it to `Config.limits`. If a new setting limits the whole server,
  also add it to `Config.for_worker`.
- The values of a `Config` object never conflict, because its constructor checks them. Creating a `Runner` checks
  whether a server can run with a `Config` on this system.
- This module does not read flags, environment variables or files. The module `options` builds a command-line option
  from each setting.
"""

import re
import signal
from collections.abc import Iterator
from dataclasses import dataclass, field, fields, replace
from ipaddress import ip_network
from pathlib import Path
from types import NoneType
from typing import Any, TypeVar, get_args

from tensor_reshape.rules.errors import TensorReshapeError
from tensor_reshape.rules.limits import MAX_HEADER_BYTES, MAX_MESSAGE_BYTES, MAX_PROTOBUF_BYTES, Limits
from tensor_reshape.rules.sizes import round_size
from tensor_reshape.runtime.addresses import is_local

MAX_STOP_SECONDS = 3600
"""Maximum value of --drain-seconds and of --shutdown-grace-seconds."""

LEAST_BUDGET_FACTOR = 8
"""Minimum memory budget of a worker, as a multiple of --max-message-bytes.

The call that needs the most memory is a stream with a strided tensor of the maximum size. It needs this multiple.
"""

MIN_MESSAGE_BYTES = 1024
"""Minimum value of --max-message-bytes."""

MEMORY_BUDGET_BYTES = 2**30
"""Default memory budget in bytes, if the system has enough memory and the workers do not need more."""

MAX_WORKERS = 64
"""Maximum value of --workers."""

AUTO = "auto"
"""The word that users write for the number 0 of a setting, for which the server chooses a number."""

MAX_TRANSPORT_SECONDS = 86400 * 20
"""Maximum value of a connection timeout in seconds. gRPC stores such a timeout as milliseconds in 32 bits."""

_NO_QUOTA = "The limit applies in each process. 0 = no limit."

LOG_LEVELS = ("debug", "info", "warning", "error")

VARIABLE_PREFIX = "TENSOR_RESHAPE"
"""Prefix of the names of environment variables for settings. An underscore follows the prefix."""


COST_FACTOR = 3
"""Number of copies of a message in memory, which are the request, the response, and the transport's send buffer."""

STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
"""Signals that stop a server. A stopped server ignores further signals."""

# The expression rejects :80 for http and :443 for https, because browsers omit the default port of a scheme.
_ORIGIN = re.compile(r"(http(?!.*:80$)|https(?!.*:443$))://[a-z0-9.:\[\]-]+")
# In a listening address, an IPv6 address is in brackets. The regular expression admits only ASCII digits in the port,
# because int() also accepts other Unicode digits.
_ADDRESS = re.compile(r"unix:.+|(?!unix:)(?P<host>\[[^\[\]]+\]|[^:\[\]]+):(?P<port>[0-9]{1,5})")
_MAX_PORT = 65535
_Value = TypeVar("_Value")


class ConfigError(TensorReshapeError):
    """The configuration is invalid, or a server cannot run with it on this system.

    Attributes:
        faults: the texts of all faults. Each text is one line.
    """

    def __init__(self, *faults: str) -> None:
        """Joins the faults into the message of the exception."""
        super().__init__("\n".join(faults))
        self.faults = faults


class SettingsError(ConfigError):
    """A setting has an invalid value, or settings conflict. Such settings are invalid on every system."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsFiles:
    """The paths of PEM files with the server's certificate chain, its key, and the authority of client certificates."""

    certificate: Path
    key: Path
    client_ca: Path | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """The description of one setting, read from a dataclass field and its metadata (see `declare`).

    Attributes:
        name: the name of the field.
        type: the type of one value of the setting, which is bool, int, float, str or Path.
        is_repeatable: whether users may set the option several times. The value of such a setting is a tuple.
        default: the default value of the field.
        help: the text that explains the setting in `--help` and the documentation.
        least: the smallest valid number, or None for no limit.
        most: the largest valid number, or None for no limit.
        choices: the valid words. An empty tuple admits any text.
        ignores_case: whether users may also write the valid words in capitals.
        metavar: the placeholder for a value in `--help`. If it is empty, `--help` shows the default placeholder of the
            type.
        system_default: a description of the default if the default depends on the system, and otherwise an empty text.
        has_auto: whether users may write the word `AUTO` instead of a number, so that the server chooses the number.
    """

    name: str
    type: type
    is_repeatable: bool
    default: Any
    help: str
    least: float | None = None
    most: float | None = None
    choices: tuple[str, ...] = ()
    ignores_case: bool = False
    metavar: str = ""
    system_default: str = ""
    has_auto: bool = False

    @property
    def flag(self) -> str:
        """The command-line flag of the setting, for example `--max-calls`."""
        return f"--{self.name.replace('_', '-')}"

    @property
    def variable(self) -> str:
        """The environment variable of the setting, for example `TENSOR_RESHAPE_MAX_CALLS`."""
        return f"{VARIABLE_PREFIX}_{self.name.upper()}"

    @property
    def is_size(self) -> bool:
        """Whether the setting is a size in bytes, which users may write with a unit."""
        return self.name.endswith("_bytes")

    @property
    def bounds(self) -> str:
        """The description of the valid values, or an empty text if every value of the type is valid."""
        if self.choices:
            return " or ".join(self.choices)
        if self.least is None:
            return ""
        numbers = f"at least {self.least}" if self.most is None else f"{self.least} to {self.most}"
        return f"{numbers}, or {AUTO}" if self.has_auto else numbers

    def admits(self, value: Any) -> bool:  # noqa: ANN401 - of the setting's type
        """Returns whether a value of the setting's type is within its bounds."""
        if self.choices and value not in self.choices:
            return False
        # Every comparison with NaN is false. A check for `value < least` would therefore accept NaN, but this check
        # rejects it.
        return (self.least is None or value >= self.least) and (self.most is None or value <= self.most)


def declare(text: str, *, default: _Value, **facts: Any) -> _Value:
    """Returns a dataclass field whose metadata contain the help text and other attributes of a `Setting`."""
    return field(default=default, metadata={"help": text, **facts})


def list_settings(declaring: type) -> tuple[Setting, ...]:
    """Returns the settings of a dataclass in the order of its fields. Every field must be a setting."""
    settings = []
    for one in fields(declaring):
        # For types such as tuple[str, ...] and Path | None, `get_args` returns the type of a single value. For types
        # such as int, `get_args` returns an empty tuple.
        (kind, *_) = [part for part in get_args(one.type) if part not in {..., NoneType}] or [one.type]
        is_repeatable = isinstance(one.default, tuple)
        settings.append(
            Setting(name=one.name, type=kind, is_repeatable=is_repeatable, default=one.default, **one.metadata)
        )
    return tuple(settings)


@dataclass(frozen=True, kw_only=True)
class ServingSettings:
    """The settings for addresses, processes and shutdown."""

    # By default, the server listens only on loopback. To serve a network, an operator must change this setting.
    listen: tuple[str, ...] = declare(
        "Address that serves calls: host:port (port 0 = any free port) or unix:PATH. You can repeat the option. In "
        "the environment variable, separate addresses by spaces.",
        default=("127.0.0.1:50051",),
        metavar="ADDRESS",
    )

    health_listen: str | None = declare(
        "Address (host:port or unix:PATH) that serves only health checks, always without TLS. Use it for probes.",
        default=None,
        metavar="ADDRESS",
    )

    http_listen: str | None = declare(
        "Address (host:port) that serves the API as JSON and Connect over HTTP, a page to try it, and the Open "
        "Inference Protocol over REST, in a process of its own. The address uses TLS if the server uses TLS. Needs "
        "the extra http.",
        default=None,
        metavar="ADDRESS",
    )

    http_allow_origin: tuple[str, ...] = declare(
        "Origin of web pages that may call the HTTP port from a browser, for example https://shapes.example. You can "
        "repeat the option. In the environment variable, separate origins by spaces. Without it, pages of other "
        "origins are rejected.",
        default=(),
        metavar="ORIGIN",
    )

    workers: int = declare(
        "Number of processes that share the ports. If the number is above 1, a supervisor replaces workers that exit "
        f"or hang. {AUTO} = one for each core, or fewer if the memory does not suffice, and 1 with a unix socket.",
        default=1,
        least=1,
        most=MAX_WORKERS,
        metavar=f"NUMBER|{AUTO}",
        has_auto=True,
    )

    # Docker kills a container 10 s after the stop signal. The drain period, the grace period, and one second in which
    # clients disconnect must fit into this time.
    drain_seconds: float = declare(
        "Seconds to report NOT_SERVING before the server stops accepting calls.",
        default=0.5,
        least=0,
        most=MAX_STOP_SECONDS,
    )

    shutdown_grace_seconds: float = declare(
        "Seconds that running calls may take to finish after the drain period.",
        default=8.0,
        least=0,
        most=MAX_STOP_SECONDS,
    )


@dataclass(frozen=True, kw_only=True)
class BoundSettings:
    """The settings that limit messages, memory, calls and connections."""

    max_message_bytes: int = declare(
        "Maximum size of a request and of an output.",
        default=MAX_MESSAGE_BYTES,
        least=MIN_MESSAGE_BYTES,
        most=MAX_PROTOBUF_BYTES,
    )

    memory_budget_bytes: int = declare(
        "Memory that all running calls may use together. Each worker needs at least "
        f"{LEAST_BUDGET_FACTOR} times --max-message-bytes. The process for HTTP gets half of a worker's share.",
        default=MEMORY_BUDGET_BYTES,
        least=MIN_MESSAGE_BYTES,
        system_default="1 GiB, or more if the workers need it, but at most half of the available memory",
    )

    max_calls: int = declare(
        "Maximum number of running calls. The server rejects further calls. The process for HTTP has the same limit "
        "for its own calls.",
        default=2048,
        least=1,
    )

    stall_timeout_seconds: float = declare(
        "Seconds without progress after which the server aborts a call. The time is shorter if other calls need the "
        "memory of the call.",
        default=30.0,
        least=0.1,
    )

    # After about this time, clients reconnect, so a server that was added to a load balancer receives its share of
    # calls.
    max_connection_age_seconds: float = declare(
        "Seconds, plus or minus 10 %, after which the server closes a connection gracefully, so that the client "
        "reconnects. Running calls continue. 0 = no limit.",
        default=600.0,
        least=0,
        most=MAX_TRANSPORT_SECONDS,
    )


@dataclass(frozen=True, kw_only=True)
class QuotaSettings:
    """The settings that limit each caller. A caller is an identity, or a host if clients do not authenticate.

    By default, callers have no quota, because a host may be a proxy for all clients. Even without quotas, the hosts
    share the capacity of the server fairly.
    """

    trusted_proxy: tuple[str, ...] = declare(
        "IP address or network of a trusted proxy, or unix: for unix sockets. You can repeat the option. For calls "
        "from such a proxy, quotas and fair sharing use the last address in x-forwarded-for as the address of the "
        "caller. The server ignores this header in other calls.",
        default=(),
        metavar="ADDRESS",
    )

    max_calls_per_caller: int = declare(
        f"Maximum number of running calls of one caller. {_NO_QUOTA}", default=0, least=0
    )

    max_calls_per_caller_per_second: float = declare(
        "Maximum average number of calls that one caller may start per second. A caller may start this "
        f"number of calls at once. {_NO_QUOTA}",
        default=0.0,
        least=0,
        most=1_000_000,
    )


@dataclass(frozen=True, kw_only=True)
class CallerSettings:
    """The settings for TLS, authentication and authorization."""

    tls_certificate: Path | None = declare(
        "PEM file with the server's certificate chain. Needs --tls-key.", default=None
    )

    tls_key: Path | None = declare("PEM file with the private key of the certificate.", default=None)

    tls_client_ca: Path | None = declare(
        "PEM file with a certificate authority. Clients must present a certificate that the authority has signed. "
        "Without this option, clients need no certificate.",
        default=None,
    )

    token_file: Path | None = declare(
        "File with bearer tokens, one per line: NAME:TOKEN or NAME:sha256:HEX. Each call must send one of the tokens. "
        "Without this option, calls need no token.",
        default=None,
    )

    allow_plaintext_tokens: bool = declare(
        "Accept tokens without TLS on addresses that other machines can reach. Use it only if something else encrypts "
        "the connections, for example a service mesh.",
        default=False,
    )

    authorization_file: Path | None = declare(
        "TOML file with the methods that each identity may call. Without this option, authenticated callers may call "
        "every method.",
        default=None,
    )


@dataclass(frozen=True, kw_only=True)
class ObservationSettings:
    """The settings for logs, metrics and tracing."""

    log_format: str = declare("Format of the log lines.", default="text", choices=("text", "json"))

    log_level: str = declare(
        "Lowest level that is logged. info includes calls that fail or are rejected, up to ten lines per second of "
        "each kind. debug has no such limit, and includes every call when it ends.",
        default="info",
        choices=LOG_LEVELS,
        ignores_case=True,
    )

    metrics_listen: str | None = declare(
        "Address (host:port) that serves metrics to Prometheus over plain HTTP without authentication. Use an address "
        "that only Prometheus can reach. Without this option, the server collects no metrics.",
        default=None,
        metavar="ADDRESS",
    )

    tracing: bool = declare(
        "Send a span for each call to OpenTelemetry, by OTLP over HTTP. Configure the exporter and the sampler with "
        "OpenTelemetry's environment variables. Needs the extra tracing.",
        default=False,
    )


# `--help` lists the settings in the order of the dataclass fields. A dataclass lists the fields of its last base class
# first, so the base classes of `Config` are in reverse order.
@dataclass(frozen=True, kw_only=True)
class Config(ObservationSettings, CallerSettings, QuotaSettings, BoundSettings, ServingSettings):
    """The settings of one server.

    For the meaning and the valid values of each setting, see the declaration of its field.
    """

    def __post_init__(self) -> None:
        """Raises SettingsError if the values are invalid or conflict."""
        faults = tuple(self._find_faults())
        if faults:
            raise SettingsError(*faults)

    def for_worker(self, listen: tuple[str, ...], health_listen: str | None = None) -> "Config":
        """Returns the configuration for one worker process, which gets its share of the server's memory and calls.

        Args:
            listen: the addresses that serve calls, each with its bound port instead of port 0.
            health_listen: the address that serves only health checks, with its bound port. None if it is not
                configured.
        """
        return replace(
            self,
            listen=listen,
            health_listen=health_listen,
            http_listen=None,
            metrics_listen=None,  # the supervisor process serves the metrics of all workers
            workers=1,
            memory_budget_bytes=2 * self.memory_budget_bytes // self.shares,
            max_calls=-(-self.max_calls // self.workers),  # rounded up, so that each worker admits at least one call
        )

    def for_http(self, http_listen: str) -> "Config":
        """Returns the configuration for the process that serves HTTP, which gets its share of the server's memory.

        Args:
            http_listen: the address that serves HTTP, with its bound port instead of port 0.
        """
        return replace(
            self,
            listen=(),
            health_listen=None,
            http_listen=http_listen,
            metrics_listen=None,
            memory_budget_bytes=self.memory_budget_bytes // self.shares,
        )

    @property
    def shares(self) -> int:
        """The number of shares into which the memory budget is divided.

        A worker gets two shares, and the process for HTTP gets one share. A server without addresses for gRPC has no
        workers.
        """
        return count_shares(self.workers if self.listen else 0, has_http=self.http_listen is not None)

    @property
    def all_addresses(self) -> tuple[str, ...]:
        """Every address that gRPC listens on, for calls and for health checks."""
        return self.listen if self.health_listen is None else (*self.listen, self.health_listen)

    @property
    def exposed_addresses(self) -> tuple[str, ...]:
        """Every address for calls that other machines can reach."""
        return tuple(one for one in (*self.listen, self.http_listen) if one and not is_local(one))

    @property
    def tls(self) -> TlsFiles | None:
        """The paths of the files for TLS, or None if the server uses plain text."""
        if self.tls_certificate is None or self.tls_key is None:
            return None
        return TlsFiles(certificate=self.tls_certificate, key=self.tls_key, client_ca=self.tls_client_ca)

    @property
    def authenticates(self) -> bool:
        """Whether callers must authenticate."""
        return self.tls_client_ca is not None or self.token_file is not None

    @property
    def limits(self) -> Limits:
        """The limits for the reshape rules and the backend.

        The setting `max_message_bytes` does not limit a dense tensor in a stream, because the server does not collect
        its chunks. Only the constant `MAX_TENSOR_BYTES` limits the size of such a tensor.
        """
        # A response message contains the output tensor and a header, and protobuf limits the whole message to 2 GiB.
        return Limits(max_output_bytes=min(self.max_message_bytes, MAX_PROTOBUF_BYTES - MAX_HEADER_BYTES))

    def _find_faults(self) -> Iterator[str]:
        """Yields an error text for each invalid value and for each conflict between settings."""
        for setting in SETTINGS:
            if not setting.admits(getattr(self, setting.name)):
                yield f"{setting.name} must be {setting.bounds}, not {getattr(self, setting.name)!r}"
        yield from self._find_address_faults()
        yield from self._find_http_faults()
        if self.tls is None and (self.tls_certificate or self.tls_key or self.tls_client_ca):
            yield "set both --tls-certificate and --tls-key, or neither. --tls-client-ca needs both"
        yield from self._find_caller_faults()
        # With a smaller memory budget, the largest possible call would never succeed, although the server would ask the
        # client to retry.
        least = find_least_budget(self.max_message_bytes, self.shares)
        if self.memory_budget_bytes < least:
            yield (
                f"--memory-budget-bytes is {round_size(self.memory_budget_bytes)}, but one call in each process may"
                f" need {round_size(least)}. Raise --memory-budget-bytes, or lower --max-message-bytes or --workers"
            )

    def _find_address_faults(self) -> Iterator[str]:
        """Yields an error text for each malformed address and for each address that several workers cannot share."""
        for address in self.all_addresses:
            if not is_address(address):
                yield f"cannot listen on {address!r}: use host:port or unix:PATH"
            elif self.workers > 1 and address.startswith("unix:"):
                yield f"cannot listen on {address}: workers cannot share a unix socket. Use a port or --workers 1"
        for proxy in self.trusted_proxy:
            if not _is_proxy(proxy):
                yield f"--trusted-proxy is {proxy!r}: use an IP address, a network such as 10.0.0.0/8, or unix:"

    def _find_http_faults(self) -> Iterator[str]:
        """Yields an error text for each malformed origin, and for each malformed address for HTTP or metrics."""
        for origin in self.http_allow_origin:
            if not _ORIGIN.fullmatch(origin):
                yield (
                    f"--http-allow-origin is {origin!r}: list each origin as browsers send it, with its scheme and "
                    "host in lower case, and without * and a default port, such as https://a.example"
                )
        for action, plain in (("serve metrics", self.metrics_listen), ("serve HTTP", self.http_listen)):
            if plain is not None and (not is_address(plain) or plain.startswith("unix:")):
                yield f"cannot {action} on {plain!r}: use host:port"

    def _find_caller_faults(self) -> Iterator[str]:
        """Yields an error text for combinations of settings that admit callers whom the operator wants to reject."""
        if self.authorization_file is not None and not self.authenticates:
            yield "--authorization-file needs --tls-client-ca or --token-file: without them, callers have no identity"
        if self.exposed_addresses and self.token_file and self.tls is None and not self.allow_plaintext_tokens:
            yield (
                f"--token-file on {self.exposed_addresses[0]} needs TLS, because others could read the tokens. If "
                "something else encrypts the connections, for example a service mesh, set --allow-plaintext-tokens"
            )


SETTINGS: tuple[Setting, ...] = list_settings(Config)
"""All settings, in the order of `--help` and the documentation."""


def count_shares(workers: int, *, has_http: bool) -> int:
    """Returns the number of shares of the memory budget (see `Config.shares`)."""
    return 2 * workers + has_http


def fit_memory(available: int, shares: int, max_message_bytes: int | None) -> tuple[int, int]:
    """Returns the default memory budget and the maximum message size that fit a system's memory, both in bytes.

    Args:
        available: the number of bytes of memory that calls may use on this system.
        shares: the number of shares into which this memory is divided (see `Config.shares`).
        max_message_bytes: the configured maximum message size, which is returned unchanged. If it is None, the function
            returns the default size, or a smaller size if the system has little memory.

    Raises:
        ConfigError: the memory is too small even for the smallest messages.
    """
    if 2 * available < LEAST_BUDGET_FACTOR * shares * MIN_MESSAGE_BYTES:
        message = f"only {available} bytes of memory are available for calls. Raise the memory limit or lower --workers"
        raise ConfigError(message)
    # The maximum message size is lowered only if the system has little memory.
    if max_message_bytes is None:
        max_message_bytes = min(MAX_MESSAGE_BYTES, 2 * available // (LEAST_BUDGET_FACTOR * shares))
    return min(max(MEMORY_BUDGET_BYTES, find_least_budget(max_message_bytes, shares)), available), max_message_bytes


def find_least_budget(max_message_bytes: int, shares: int) -> int:
    """Returns the smallest memory budget in bytes that is large enough for one call of any size in each process."""
    return LEAST_BUDGET_FACTOR * max_message_bytes * shares // 2


def is_address(address: str) -> bool:
    """Returns whether a text is `unix:PATH` or `host:port`."""
    match = _ADDRESS.fullmatch(address)
    return match is not None and int(match["port"] or 0) <= _MAX_PORT and _can_be_looked_up(match["host"] or "")


def _is_proxy(address: str) -> bool:
    """Returns whether a text is an IP address, a network, or `unix:`."""
    try:
        return address == "unix:" or ip_network(address, strict=False) is not None
    except ValueError:
        return False


def _can_be_looked_up(host: str) -> bool:
    """Returns whether `getaddrinfo` accepts the host.

    For some invalid host names, `getaddrinfo` raises UnicodeError instead of OSError.
    """
    try:
        host.encode("idna")
    except UnicodeError:
        return False
    return True
