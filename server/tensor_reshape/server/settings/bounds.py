"""Settings that limit messages, memory, calls and connections."""

from dataclasses import dataclass
from typing import Annotated

from tensor_reshape.rules.limits import MAX_MESSAGE_BYTES, MAX_PROTOBUF_BYTES
from tensor_reshape.server.settings.declarations import Declaration

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
