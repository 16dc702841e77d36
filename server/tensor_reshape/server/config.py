"""The server's configuration, which combines all settings and checks them together.

- To add a setting, add a field to one of the groups in `settings`. The flag, the environment variable and the
  documentation of a setting are generated. If a new setting limits the reshape rules, also add it to `Config.limits`.
  If a new setting limits the whole server, also add it to `Config.for_worker`.
- The values of a `Config` object never conflict, because its constructor checks them. Creating a `Runner` checks
  whether a server can run with a `Config` on this system.
- This module does not read flags, environment variables or files. The module `__main__` reads the flags and the
  environment variables.
"""

import re
import signal
from collections.abc import Iterator
from dataclasses import dataclass, replace
from ipaddress import ip_network
from pathlib import Path

from tensor_reshape.rules.errors import TensorReshapeError
from tensor_reshape.rules.limits import MAX_HEADER_BYTES, MAX_MESSAGE_BYTES, MAX_PROTOBUF_BYTES, Limits
from tensor_reshape.rules.sizes import round_size
from tensor_reshape.runtime.addresses import is_local
from tensor_reshape.server.settings import (
    LEAST_BUDGET_FACTOR,
    MEMORY_BUDGET_BYTES,
    MIN_MESSAGE_BYTES,
    BoundSettings,
    CallerSettings,
    ObservationSettings,
    QuotaSettings,
    ServingSettings,
    Setting,
    list_settings,
)

COST_FACTOR = 3
"""Number of copies of a message in memory, which are the request, the response, and the transport's send buffer."""

STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
"""Signals that stop a server. A stopped server ignores further signals."""

# browsers omit the default port of a scheme
_ORIGIN = re.compile(r"(http(?!.*:80$)|https(?!.*:443$))://[a-z0-9.:\[\]-]+")
# In a listening address, an IPv6 address is in brackets. The regular expression admits only ASCII digits in the port,
# because int() also accepts other Unicode digits.
_ADDRESS = re.compile(r"unix:.+|(?!unix:)(?P<host>\[[^\[\]]+\]|[^:\[\]]+):(?P<port>[0-9]{1,5})")
_MAX_PORT = 65535


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
    """A setting has an invalid value, or settings conflict. No system can run a server with these settings."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsFiles:
    """PEM files with the server's certificate chain, the server's key, and the authority of client certificates."""

    certificate: Path
    key: Path
    client_ca: Path | None


# `--help` lists the settings in the order of the dataclass fields. A dataclass lists the fields of its last base class
# first, so the base classes of `Config` are in reverse order.
@dataclass(frozen=True, kw_only=True)
class Config(ObservationSettings, CallerSettings, QuotaSettings, BoundSettings, ServingSettings):
    """The settings of one server.

    The declaration of each field describes the meaning and the valid values of a setting.
    """

    def __post_init__(self) -> None:
        """Raises SettingsError if the values are invalid or conflict."""
        faults = tuple(self._find_faults())
        if faults:
            raise SettingsError(*faults)

    def for_worker(self, listen: tuple[str, ...], health_listen: str | None = None) -> "Config":
        """Returns the configuration of one worker, with its share of the server's limits.

        Args:
            listen: the addresses for calls, with their bound ports.
            health_listen: the address for health checks with its bound port, or None without such an address.
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
        """Returns the configuration of the process for HTTP, with its share of the server's limits.

        Args:
            http_listen: the address for HTTP, with its bound port.
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
        """The number of shares of the memory budget. A worker gets two shares, and the process for HTTP gets one.

        A server without addresses for gRPC has no workers.
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
        """The files for TLS, or None for plain text."""
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

        For a dense tensor on a stream, only the fixed limit `MAX_TENSOR_BYTES` applies, because the server does not
        collect its bytes.
        """
        # A response message contains the output tensor and a header, and protobuf limits the whole message to 2 GiB.
        return Limits(max_output_bytes=min(self.max_message_bytes, MAX_PROTOBUF_BYTES - MAX_HEADER_BYTES))

    def _find_faults(self) -> Iterator[str]:
        """Yields invalid values and conflicts between settings."""
        yield from self._find_single_faults()
        yield from self._find_address_faults()
        yield from self._find_http_faults()
        if self.tls is None and (self.tls_certificate or self.tls_key or self.tls_client_ca):
            yield "set both --tls-certificate and --tls-key, or neither. --tls-client-ca needs both"
        yield from self._find_caller_faults()
        # With a smaller memory budget, the call that needs the most memory would never succeed, although the server
        # would ask its client to retry.
        least = LEAST_BUDGET_FACTOR * self.max_message_bytes * self.shares // 2
        if self.memory_budget_bytes < least:
            yield (
                f"--memory-budget-bytes is {round_size(self.memory_budget_bytes)}, but one call in each process may"
                f" need {round_size(least)}. Raise --memory-budget-bytes, or lower --max-message-bytes or --workers"
            )

    def _find_single_faults(self) -> Iterator[str]:
        for setting in SETTINGS:
            if not setting.admits(getattr(self, setting.name)):
                yield f"{setting.name} must be {setting.bounds}, not {getattr(self, setting.name)!r}"

    def _find_address_faults(self) -> Iterator[str]:
        """Yields malformed addresses, and addresses that workers cannot share."""
        for address in self.all_addresses:
            if not is_address(address):
                yield f"cannot listen on {address!r}: use host:port or unix:PATH"
            elif self.workers > 1 and address.startswith("unix:"):
                yield f"cannot listen on {address}: workers cannot share a unix socket. Use a port or --workers 1"
        for proxy in self.trusted_proxy:
            if not _is_proxy(proxy):
                yield f"--trusted-proxy is {proxy!r}: use an IP address, a network such as 10.0.0.0/8, or unix:"

    def _find_http_faults(self) -> Iterator[str]:
        """Yields malformed addresses and origins for HTTP."""
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
        """Yields combinations of settings that would admit callers that the operator does not want to admit."""
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
    """Returns the default memory budget and the maximum message size, in bytes, for the memory of a system.

    Args:
        available: the memory in bytes that calls may use.
        shares: the number of shares of this memory (see `Config.shares`).
        max_message_bytes: the configured maximum, which is returned unchanged. If the argument is None, the function
            returns the default maximum, or less if the system has little memory.

    Raises:
        ConfigError: the memory is too small even for the smallest messages.
    """
    if 2 * available < LEAST_BUDGET_FACTOR * shares * MIN_MESSAGE_BYTES:
        message = f"only {available} bytes of memory are available for calls. Raise the memory limit or lower --workers"
        raise ConfigError(message)
    budget = min(MEMORY_BUDGET_BYTES, available)
    # The maximum message size is lowered only if the system has little memory. If the system has enough memory but
    # there are too many workers for the memory budget, `Config` reports an error.
    if max_message_bytes is None:
        fitting = 2 * budget // (LEAST_BUDGET_FACTOR * shares) if budget < MEMORY_BUDGET_BYTES else MAX_MESSAGE_BYTES
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
    """Returns whether `getaddrinfo` accepts the host.

    For some invalid host names, `getaddrinfo` raises UnicodeError instead of OSError.
    """
    try:
        host.encode("idna")
    except UnicodeError:
        return False
    return True
