"""The server's configuration, validated once. Values come from `__main__`: flags, then `TENSOR_RESHAPE_*`."""

import re
from dataclasses import dataclass
from pathlib import Path

from tensor_reshape.core.errors import TensorReshapeError
from tensor_reshape.core.limits import MAX_MESSAGE_BYTES, MAX_RANK, Limits

DEFAULT_ADDRESS = "127.0.0.1:50051"
"""Loopback: whoever serves a network says so."""


MAX_STOP_SECONDS = 3600
"""The longest that draining, or the grace, may take."""

_ADDRESS = re.compile(r"unix:.+|(?!unix:)(\[[^\[\]]+\]|[^:\[\]]+):(?P<port>[0-9]{1,5})")
_MAX_PORT = 65535


class ConfigError(TensorReshapeError):
    """The configuration cannot be served."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsFiles:
    """The server's certificate chain and key in PEM, and the authority that its clients must be signed by, if any."""

    certificate: Path
    key: Path
    client_ca: Path | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """What a server is started with.

    Attributes:
        listen: addresses, each `host:port` (port 0: any free one) or `unix:PATH`.
        threads: how many requests are worked on at once.
        max_message_bytes: the largest request, and the largest output.
        max_rank: of Reshape-1.
        drain_seconds: how long NOT_SERVING is announced before new calls are refused.
        grace_seconds: how long calls under way may take after that.
        tls: None serves in plain text.
    """

    listen: tuple[str, ...] = (DEFAULT_ADDRESS,)
    threads: int = 16
    max_message_bytes: int = MAX_MESSAGE_BYTES
    max_rank: int = MAX_RANK
    drain_seconds: float = 1.0
    grace_seconds: float = 8.0
    tls: TlsFiles | None = None

    def __post_init__(self) -> None:
        """Raises ConfigError where the values cannot be served."""
        for address in self.listen:
            check_address(address)
        for seconds in (self.drain_seconds, self.grace_seconds):
            if not 0 <= seconds <= MAX_STOP_SECONDS:
                message = f"drain_seconds and grace_seconds lie from 0 to {MAX_STOP_SECONDS}, not at {seconds}"
                raise ConfigError(message)

    @property
    def limits(self) -> Limits:
        """What the rules and the backend are bounded by."""
        return Limits(max_rank=self.max_rank, max_output_bytes=self.max_message_bytes)


def check_address(address: str) -> str:
    """Returns `address` where it is `unix:PATH` or `host:port`.

    Raises:
        ConfigError: it is neither.
    """
    match = _ADDRESS.fullmatch(address)
    if match is None or int(match["port"] or 0) > _MAX_PORT:
        message = f"cannot listen on {address!r}: an address is host:port or unix:PATH"
        raise ConfigError(message)
    return address
