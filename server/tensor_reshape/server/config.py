"""The server's configuration, validated once. Values come from `__main__`: flags, then `TENSOR_RESHAPE_*`."""

import re
from dataclasses import dataclass, replace
from pathlib import Path

from tensor_reshape.rules.errors import TensorReshapeError
from tensor_reshape.rules.limits import (
    MAX_HEADER_BYTES,
    MAX_MESSAGE_BYTES,
    MAX_PROTOBUF_BYTES,
    MAX_RANK,
    MAX_TENSOR_BYTES,
    Limits,
)

DEFAULT_ADDRESS = "127.0.0.1:50051"
"""Loopback: whoever serves a network says so."""


COST_FACTOR = 3
"""A message is in memory as it was received, as the answer, and as what the transport sends of it."""

LEAST_BUDGET_FACTOR = 8
"""What the most expensive call takes, one of the largest tensors with strides on a stream, in messages."""

MIN_MESSAGE_BYTES = 1024
"""The least that the largest message may be."""

MAX_STOP_SECONDS = 3600
"""The longest that draining, or the grace, may take."""

MEMORY_BUDGET_BYTES = 2**30
"""What all calls under way may take together, where the system has so much."""

MAX_CONNECTIONS = 4096
"""What each address of a process takes, where there are descriptors for so many."""

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
        workers: how many processes serve; above 1, a supervisor looks after them.
        threads: how many requests each of them works on at once.
        max_message_bytes: the largest request, and the largest output.
        max_tensor_bytes: the largest tensor on a stream, whose bytes pass through.
        max_rank: of Reshape-1.
        memory_budget_bytes: what all calls under way may take together; see `admission`.
        max_calls: how many calls may be under way.
        stall_seconds: how long a request may take to arrive, or an answer to be taken, without any progress.
        serving: "inline" answers small calls on the thread that received them, with parts of grpcio that are not
            public; "threads" is how grpcio does it by itself; "auto": "inline" where the installed grpcio allows it.
        reflection: whether tools may ask for the contract, over `grpc.reflection.v1alpha`.
        drain_seconds: how long NOT_SERVING is announced before new calls are refused.
        grace_seconds: how long calls under way may take after that.
        tls: None serves in plain text.
        max_connections: what each address of a process takes; one more is closed at once.
        handshake_seconds: within which a connection must have said that it speaks HTTP/2, and TLS where it is asked.
        max_connection_idle_seconds: after which a connection without a call is closed.
        max_connection_age_seconds: after which clients are told to connect anew; calls under way go on. 0: never.
        keepalive_seconds: after which a silent connection is asked for a sign of life.
    """

    listen: tuple[str, ...] = (DEFAULT_ADDRESS,)
    workers: int = 1
    threads: int = 16
    max_message_bytes: int = MAX_MESSAGE_BYTES
    max_tensor_bytes: int = MAX_TENSOR_BYTES
    max_rank: int = MAX_RANK
    memory_budget_bytes: int = MEMORY_BUDGET_BYTES
    max_calls: int = 1024
    stall_seconds: float = 30.0
    serving: str = "auto"
    reflection: bool = True
    drain_seconds: float = 0.5
    grace_seconds: float = 8.0
    tls: TlsFiles | None = None
    max_connections: int = MAX_CONNECTIONS
    handshake_seconds: float = 10.0
    max_connection_idle_seconds: float = 900.0
    max_connection_age_seconds: float = 0.0
    keepalive_seconds: float = 60.0

    def __post_init__(self) -> None:
        """Raises ConfigError where the values cannot be served."""
        for address in self.listen:
            check_address(address)
            if self.workers > 1 and address.startswith("unix:"):
                message = f"cannot listen on {address}: several workers can share a port, but no unix socket"
                raise ConfigError(message)
        for seconds in (self.drain_seconds, self.grace_seconds):
            if not 0 <= seconds <= MAX_STOP_SECONDS:
                message = f"drain_seconds and grace_seconds lie from 0 to {MAX_STOP_SECONDS}, not at {seconds}"
                raise ConfigError(message)
        least = LEAST_BUDGET_FACTOR * self.max_message_bytes * self.workers
        if self.memory_budget_bytes < least:
            message = (
                f"memory_budget_bytes is {self.memory_budget_bytes}; one call of each worker may take {least}: "
                "lower max_message_bytes or workers"
            )
            raise ConfigError(message)

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
            max_calls=-(-self.max_calls // self.workers),
        )

    @property
    def limits(self) -> Limits:
        """What the rules and the backend are bounded by."""
        return Limits(
            max_rank=self.max_rank,
            max_output_bytes=min(self.max_message_bytes, MAX_PROTOBUF_BYTES - MAX_HEADER_BYTES),
            max_tensor_bytes=self.max_tensor_bytes,
        )


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
    if match is None or int(match["port"] or 0) > _MAX_PORT:
        message = f"cannot listen on {address!r}: an address is host:port or unix:PATH"
        raise ConfigError(message)
    return address
