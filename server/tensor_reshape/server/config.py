"""The server's configuration: the settings, which `settings` declares by subject, checked as a whole.

- To add a setting, add a field to one of the groups in `settings` and use it where it applies: flags, environment and
  page follow. Two kinds need more: a limit of the rules is passed on by `limits`, what is per server is divided by
  `for_worker`.
- A `Config` that exists is consistent in itself. Whether the system can serve it shows when a `Runner` is made.
- Nothing here asks the system. Values come from `__main__`, which reads flags and then the environment.
"""

import re
import signal
from collections.abc import Iterator
from dataclasses import dataclass, replace
from ipaddress import ip_network
from pathlib import Path

from tensor_reshape.rules.errors import TensorReshapeError
from tensor_reshape.rules.limits import MAX_HEADER_BYTES, MAX_MESSAGE_BYTES, MAX_PROTOBUF_BYTES, Limits
from tensor_reshape.runtime.addresses import is_local
from tensor_reshape.runtime.experiments import find_release
from tensor_reshape.server.settings.bounds import (
    LEAST_BUDGET_FACTOR,
    MEMORY_BUDGET_BYTES,
    MIN_MESSAGE_BYTES,
    BoundSettings,
)
from tensor_reshape.server.settings.callers import CallerSettings
from tensor_reshape.server.settings.declarations import Setting, list_settings
from tensor_reshape.server.settings.observations import ObservationSettings
from tensor_reshape.server.settings.quotas import QuotaSettings
from tensor_reshape.server.settings.serving import ServingSettings

COST_FACTOR = 3
"""A message is in memory as it was received, as the answer, and as what the transport sends of it."""

CORE, PUBLIC = "core", "public"
"""What serves calls, as the log, ServerInfo and a metric call it: gRPC's core, or the public parts of grpcio."""

STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
"""What stops a server: whoever serves handles them, and a server that has stopped ignores them."""

# A host with colons, of IPv6, is in brackets. Digits are ASCII's: int() takes others as well.
_ADDRESS = re.compile(r"unix:.+|(?!unix:)(?P<host>\[[^\[\]]+\]|[^:\[\]]+):(?P<port>[0-9]{1,5})")
_MAX_PORT = 65535
_OLDEST = (0, 0)
BOUNDED_UNPACKING = (1, 84)
"""The first release of grpcio whose core ends a message that is larger than it may be while it unpacks it."""


class ConfigError(TensorReshapeError):
    """The configuration cannot be served.

    Attributes:
        faults: why, a line each.
    """

    def __init__(self, *faults: str) -> None:
        """Keeps the faults."""
        super().__init__("\n".join(faults))
        self.faults = faults


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsFiles:
    """The server's certificate chain and key in PEM, and the authority that its clients must be signed by, if any."""

    certificate: Path
    key: Path
    client_ca: Path | None


# The groups from the last to the first: a dataclass takes the fields of its bases in the reverse order, and that is the
# order in which `--help` lists them.
@dataclass(frozen=True, kw_only=True)
class Config(ObservationSettings, CallerSettings, QuotaSettings, BoundSettings, ServingSettings):
    """What a server is started with. What each field means, and which values it takes, is in its declaration."""

    def __post_init__(self) -> None:
        """Raises ConfigError where the values cannot be served."""
        faults = tuple(self._find_faults())
        if faults:
            raise ConfigError(*faults)

    def for_worker(
        self, listen: tuple[str, ...], health_listen: str | None = None, http_listen: str | None = None
    ) -> "Config":
        """Returns what one of the workers is started with: its share of what the whole server may use.

        Args:
            listen: the same addresses with their real ports.
            health_listen: likewise.
            http_listen: likewise.
        """
        return replace(
            self,
            listen=listen,
            health_listen=health_listen,
            http_listen=http_listen,
            metrics_listen=None,  # one port shows what all of them count
            workers=1,
            memory_budget_bytes=self.memory_budget_bytes // self.workers,
            max_calls=-(-self.max_calls // self.workers),  # rounded up: a worker that may take no call serves nobody
        )

    @property
    def all_addresses(self) -> tuple[str, ...]:
        """Every address that gRPC listens on, for calls and for health."""
        return self.listen if self.health_listen is None else (*self.listen, self.health_listen)

    @property
    def bound_addresses(self) -> tuple[str, ...]:
        """Every address that each process binds."""
        return self.all_addresses if self.http_listen is None else (*self.all_addresses, self.http_listen)

    @property
    def tls(self) -> TlsFiles | None:
        """What to serve TLS with; None: plain text."""
        if self.tls_certificate is None or self.tls_key is None:
            return None
        return TlsFiles(certificate=self.tls_certificate, key=self.tls_key, client_ca=self.tls_client_ca)

    @property
    def authenticates(self) -> bool:
        """Whether callers have to say who they are."""
        return self.tls_client_ca is not None or self.token_file is not None

    @property
    def reflects(self) -> bool:
        """Whether reflection is served: where callers have to say who they are, only if it was asked for."""
        return not self.authenticates if self.reflection is None else self.reflection

    @property
    def limits(self) -> Limits:
        """What the rules and the backend are bounded by."""
        # protobuf counts in 31 bits, and the header of an answer has to fit beside its tensor.
        return Limits(
            max_output_bytes=min(self.max_message_bytes, MAX_PROTOBUF_BYTES - MAX_HEADER_BYTES),
            max_tensor_bytes=self.max_tensor_bytes,
        )

    def _find_faults(self) -> Iterator[str]:
        """Yields what cannot be served: of each setting by itself, and of what does not go together."""
        yield from self._find_single_faults()
        yield from self._find_address_faults()
        if self.workers > 1 and self.shared_memory_dir:
            yield "--shared-memory-dir needs one worker: regions are registered with the process that is asked"
        if self.tls is None and (self.tls_certificate or self.tls_key or self.tls_client_ca):
            yield "--tls-certificate and --tls-key go together, and --tls-client-ca needs both"
        yield from self._find_caller_faults()
        # With less, the call that takes most would be refused even when it is alone, and its caller told to try again.
        least = LEAST_BUDGET_FACTOR * self.max_message_bytes * self.workers
        if self.memory_budget_bytes < least:
            yield (
                f"memory_budget_bytes is {self.memory_budget_bytes}; one call of each worker may take {least}: "
                "lower max_message_bytes or workers"
            )

    def _find_single_faults(self) -> Iterator[str]:
        for setting in SETTINGS:
            if not setting.admits(getattr(self, setting.name)):
                yield f"{setting.name} is {setting.bounds}, not {getattr(self, setting.name)!r}"

    def _find_address_faults(self) -> Iterator[str]:
        """Yields what cannot be listened on, whatever the system says."""
        for address in self.all_addresses:
            if not is_address(address):
                yield f"cannot listen on {address!r}: an address is host:port or unix:PATH"
            elif self.workers > 1 and address.startswith("unix:"):
                yield f"cannot listen on {address}: several workers can share a port, but no unix socket"
        for proxy in self.trusted_proxy:
            if not _is_proxy(proxy):
                yield f"--trusted-proxy {proxy!r} is not an IP address, a network such as 10.0.0.0/8, or unix:"
        for what, plain in (("show metrics", self.metrics_listen), ("serve HTTP", self.http_listen)):
            if plain is not None and (not is_address(plain) or plain.startswith("unix:")):
                yield f"cannot {what} on {plain!r}: an address of these is host:port"

    def _find_caller_faults(self) -> Iterator[str]:
        """Yields what would let in others than was meant, or more of them."""
        if self.compression and (find_release() or _OLDEST) < BOUNDED_UNPACKING:
            yield "--compression needs grpcio 1.84 or newer: older ones unpack any amount before they look at the size"
        if self.allow_identity and self.tls_client_ca is None:
            yield "--allow-identity needs --tls-client-ca: without it no client shows a certificate"
        if any(identity.startswith("token:") for identity in self.allow_identity):
            yield "--allow-identity is about certificates: what a token lets its owner do is for --authorization-file"
        if self.authorization_file is not None and not self.authenticates:
            yield "--authorization-file needs --tls-client-ca or --token-file: else nobody says who calls"
        exposed = next((address for address in self.listen if not is_local(address)), None)
        if exposed is not None and self.channelz and not self.authenticates:
            yield (
                f"--channelz on {exposed} needs --tls-client-ca or --token-file: else any stranger reads who is "
                "connected, and may hold the server up by asking"
            )
        told = exposed or (self.http_listen if self.http_listen and not is_local(self.http_listen) else None)
        if told is not None and self.token_file is not None and self.tls is None and not self.allow_plaintext_tokens:
            yield (
                f"--token-file on {told} needs TLS, or whoever is on the way reads the tokens: where something else "
                "encrypts them, as a mesh does, say --allow-plaintext-tokens"
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
    """Returns whether a resolver can be asked for a host: `getaddrinfo` raises no OSError where it cannot."""
    try:
        host.encode("idna")
    except UnicodeError:
        return False
    return True
