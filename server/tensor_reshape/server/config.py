"""The server's configuration: each setting is declared here, once, and checked when a `Config` is made.

- To add a setting, add a field to `Config` and use it where it applies: flags, environment and page follow. Two kinds
  need more: a limit of the rules is passed on by `limits`, what is per server is divided by `for_worker`.
- A `Config` that exists is consistent in itself. Whether the system can serve it shows when a `Runner` is made.
- Nothing here asks the system. Values come from `__main__`, which reads flags and then the environment.
"""

import re
import signal
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

from tensor_reshape.rules.errors import TensorReshapeError
from tensor_reshape.rules.limits import (
    MAX_HEADER_BYTES,
    MAX_MESSAGE_BYTES,
    MAX_PROTOBUF_BYTES,
    MAX_RANK,
    MAX_TENSOR_BYTES,
    Limits,
)
from tensor_reshape.server.settings import Declaration, Setting, list_settings

COST_FACTOR = 3
"""A message is in memory as it was received, as the answer, and as what the transport sends of it."""

LEAST_BUDGET_FACTOR = 8
"""What the most expensive call takes, one of the largest tensors with strides on a stream, in messages."""

MIN_MESSAGE_BYTES = 1024
"""The least that the largest message may be."""

STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
"""What stops a server: whoever serves handles them, and a server that has stopped ignores them."""

MAX_STOP_SECONDS = 3600
"""The longest that draining, or the grace, may take."""

MEMORY_BUDGET_BYTES = 2**30
"""What all calls under way may take together, where the system has so much."""

MAX_TRANSPORT_SECONDS = 86400 * 20
"""The longest that gRPC can be told of a connection: it counts milliseconds in 32 bits."""

# A host with colons, of IPv6, is in brackets. Digits are ASCII's: int() takes others as well.
_ADDRESS = re.compile(r"unix:.+|(?!unix:)(?P<host>\[[^\[\]]+\]|[^:\[\]]+):(?P<port>[0-9]{1,5})")
_MAX_PORT = 65535


class ConfigError(TensorReshapeError):
    """The configuration cannot be served."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsFiles:
    """The server's certificate chain and key in PEM, and the authority that its clients must be signed by, if any."""

    certificate: Path
    key: Path
    client_ca: Path | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """What a server is started with. What each field means, and which values it takes, is in its declaration."""

    listen: Annotated[
        tuple[str, ...],
        Declaration(
            help="host:port (port 0: any free one) or unix:PATH; may be repeated, in the environment separated by "
            "spaces.",
            metavar="ADDRESS",
        ),
    ] = ("127.0.0.1:50051",)  # loopback: whoever serves a network says so

    workers: Annotated[
        int,
        Declaration(
            help="Processes that share the ports; above 1, a supervisor replaces those that die or hang.",
            least=1,
            most=256,
        ),
    ] = 1

    threads: Annotated[
        int,
        Declaration(
            help="Long calls with tensors that each process works on at once; questions about shapes are not counted.",
            least=1,
            most=1024,
        ),
    ] = 16

    max_message_bytes: Annotated[
        int,
        Declaration(
            help="The largest request, and the largest output.", least=MIN_MESSAGE_BYTES, most=MAX_PROTOBUF_BYTES
        ),
    ] = MAX_MESSAGE_BYTES

    max_tensor_bytes: Annotated[int, Declaration(help="The largest tensor on a stream.", least=1)] = MAX_TENSOR_BYTES

    memory_budget_bytes: Annotated[
        int,
        Declaration(
            help=f"What all calls under way may take together; at least {LEAST_BUDGET_FACTOR} times "
            "--max-message-bytes for each worker.",
            least=MIN_MESSAGE_BYTES,
            system_default="1 GiB, or half of what the system leaves",
        ),
    ] = MEMORY_BUDGET_BYTES

    max_calls: Annotated[int, Declaration(help="Calls under way at once.", least=1)] = 2048

    stall_seconds: Annotated[
        float, Declaration(help="How long a call may make no progress; less while others wait.", least=0.1)
    ] = 30.0

    serving: Annotated[
        str,
        Declaration(
            help="inline answers small calls on the thread that received them; auto does where the installed grpcio "
            "allows it.",  # it takes parts of grpcio that are not public; threads is how grpcio serves by itself
            choices=("auto", "inline", "threads"),
        ),
    ] = "auto"

    engine: Annotated[
        str,
        Declaration(
            help="What of gRPC reads the connections: polling is faster for small calls, but lets any caller delay the "
            "others; auto takes it where every address is of this machine alone, else event.",
            choices=("auto", "event", "polling"),
        ),
    ] = "auto"

    reflection: Annotated[bool, Declaration(help="Whether tools that do not have the contract may ask for it.")] = True

    shared_memory_dir: Annotated[
        Path | None,
        Declaration(
            help="Any caller of the Open Inference Protocol may have tensors read from files in this directory, and "
            "written to them: those of the server's user, all of them. With one worker.",
            metavar="DIRECTORY",
            is_directory=True,
        ),
    ] = None

    max_rank: Annotated[int, Declaration(help="The largest rank of Reshape-1.", least=1, most=MAX_RANK)] = MAX_RANK

    drain_seconds: Annotated[
        float,
        Declaration(help="NOT_SERVING is announced so long before stopping.", least=0, most=MAX_STOP_SECONDS),
    ] = 0.5  # with the grace, and the second in which clients are asked to leave, below the 10 s that containers get

    grace_seconds: Annotated[
        float, Declaration(help="Calls under way may take so long after that.", least=0, most=MAX_STOP_SECONDS)
    ] = 8.0

    max_connections: Annotated[
        int,
        Declaration(
            help="Connections that each process takes on each address; fewer where there are not so many descriptors.",
            least=1,
            most=1_000_000,
        ),
    ] = 4096

    max_resets_per_second: Annotated[
        float,
        Declaration(
            help="A connection that resets more calls than that, and more than are answered on it, is closed; those "
            "whose time is up hardly count.",
            least=1,
        ),
    ] = 33.0  # why: see `calls.resets`

    handshake_seconds: Annotated[
        float,
        Declaration(
            help="How long a connection may take until it speaks HTTP/2, and TLS where that is served.",
            least=0.1,
            most=MAX_TRANSPORT_SECONDS,
        ),
    ] = 10.0

    max_connection_idle_seconds: Annotated[
        float, Declaration(help="How long a connection may have no call.", least=1, most=MAX_TRANSPORT_SECONDS)
    ] = 900.0

    max_connection_age_seconds: Annotated[
        float,
        Declaration(
            help="When clients are told to connect anew; calls under way go on. 0: never.",
            least=0,
            most=MAX_TRANSPORT_SECONDS,
        ),
    ] = 0.0

    keepalive_seconds: Annotated[
        float,
        Declaration(
            help="How long a connection may be silent until it is asked for a sign of life; it has five times as long "
            "to give one.",
            least=1,
            most=MAX_TRANSPORT_SECONDS,
        ),
    ] = 60.0

    log_format: Annotated[str, Declaration(help="The form of the logs.", choices=("text", "json"))] = "text"

    log_level: Annotated[
        str,
        Declaration(help="debug logs every refusal.", choices=("debug", "info", "warning", "error"), ignores_case=True),
    ] = "info"

    tls_certificate: Annotated[
        Path | None, Declaration(help="The server's certificate chain, PEM. With --tls-key.")
    ] = None

    tls_key: Annotated[Path | None, Declaration(help="Its private key, PEM.")] = None

    tls_client_ca: Annotated[
        Path | None, Declaration(help="Demand client certificates signed by this authority, PEM.")
    ] = None

    def __post_init__(self) -> None:
        """Raises ConfigError where the values cannot be served."""
        fault = next(self._find_faults(), None)
        if fault is not None:
            raise ConfigError(fault)

    def for_worker(self, listen: tuple[str, ...]) -> "Config":
        """Returns what one of the workers is started with: its share of what the whole server may use.

        Args:
            listen: the same addresses with their real ports.
        """
        return replace(
            self,
            listen=listen,
            workers=1,
            memory_budget_bytes=self.memory_budget_bytes // self.workers,
            max_calls=-(-self.max_calls // self.workers),  # rounded up: a worker that may take no call serves nobody
        )

    @property
    def tls(self) -> TlsFiles | None:
        """What to serve TLS with; None: plain text."""
        if self.tls_certificate is None or self.tls_key is None:
            return None
        return TlsFiles(certificate=self.tls_certificate, key=self.tls_key, client_ca=self.tls_client_ca)

    @property
    def limits(self) -> Limits:
        """What the rules and the backend are bounded by."""
        # protobuf counts in 31 bits, and the header of an answer has to fit beside its tensor.
        return Limits(
            max_rank=self.max_rank,
            max_output_bytes=min(self.max_message_bytes, MAX_PROTOBUF_BYTES - MAX_HEADER_BYTES),
            max_tensor_bytes=self.max_tensor_bytes,
        )

    def _find_faults(self) -> Iterator[str]:
        """Yields what cannot be served: first of each setting by itself, since the rest reckons with their values."""
        for setting in SETTINGS:
            if not setting.admits(getattr(self, setting.name)):
                yield f"{setting.name} is {setting.bounds}, not {getattr(self, setting.name)!r}"
        for address in map(check_address, self.listen):
            if self.workers > 1 and address.startswith("unix:"):
                yield f"cannot listen on {address}: several workers can share a port, but no unix socket"
        if self.workers > 1 and self.shared_memory_dir:
            yield "--shared-memory-dir needs one worker: regions are registered with the process that is asked"
        if self.tls is None and (self.tls_certificate or self.tls_key or self.tls_client_ca):
            yield "--tls-certificate and --tls-key go together, and --tls-client-ca needs both"
        # With less, the call that takes most would be refused even when it is alone, and its caller told to try again.
        least = LEAST_BUDGET_FACTOR * self.max_message_bytes * self.workers
        if self.memory_budget_bytes < least:
            yield (
                f"memory_budget_bytes is {self.memory_budget_bytes}; one call of each worker may take {least}: "
                "lower max_message_bytes or workers"
            )


SETTINGS: tuple[Setting, ...] = list_settings(Config)
"""All settings, in the order in which `--help` and the documentation list them."""


def fit_memory(room: int, workers: int, max_message_bytes: int | None) -> tuple[int, int]:
    """Returns the default budget, and the largest message, of a system with `room` bytes for all calls under way.

    Args:
        room: what the system has.
        workers: how many processes share it.
        max_message_bytes: what was asked for, which stays as it is; None: the default, or less where there is no room.

    Raises:
        ConfigError: there is no room for the smallest messages.
    """
    if room < LEAST_BUDGET_FACTOR * workers * MIN_MESSAGE_BYTES:
        message = f"the system leaves {room} bytes of memory for calls: raise its limits, or lower threads or workers"
        raise ConfigError(message)
    budget = min(MEMORY_BUDGET_BYTES, room)
    # Only where memory is short: with the whole budget, too many workers are a mistake, and `Config` says so.
    if max_message_bytes is None:
        fitting = budget // (LEAST_BUDGET_FACTOR * workers) if budget < MEMORY_BUDGET_BYTES else MAX_MESSAGE_BYTES
        max_message_bytes = min(MAX_MESSAGE_BYTES, fitting)
    return budget, max_message_bytes


def check_address(address: str) -> str:
    """Returns `address` where it is `unix:PATH` or `host:port`.

    Raises:
        ConfigError: it is neither.
    """
    match = _ADDRESS.fullmatch(address)
    if match is None or int(match["port"] or 0) > _MAX_PORT or not _can_be_looked_up(match["host"] or ""):
        message = f"cannot listen on {address!r}: an address is host:port or unix:PATH"
        raise ConfigError(message)
    return address


def _can_be_looked_up(host: str) -> bool:
    """Returns whether a resolver can be asked for a host: `getaddrinfo` raises no OSError where it cannot."""
    try:
        host.encode("idna")
    except UnicodeError:
        return False
    return True
