"""What callers may ask for, hold and do."""

from dataclasses import dataclass
from typing import Annotated

from tensor_reshape.rules.limits import MAX_MESSAGE_BYTES, MAX_PROTOBUF_BYTES, MAX_TENSOR_BYTES
from tensor_reshape.server.settings.declarations import Declaration

LEAST_BUDGET_FACTOR = 8
"""What the most expensive call takes, one of the largest tensors with strides on a stream, in messages."""

MIN_MESSAGE_BYTES = 1024
"""The least that the largest message may be."""

MEMORY_BUDGET_BYTES = 2**30
"""What all calls under way may take together, where the system has so much."""

MAX_TRANSPORT_SECONDS = 86400 * 20
"""The longest that gRPC can be told of a connection: it counts milliseconds in 32 bits."""


@dataclass(frozen=True, kw_only=True)
class BoundSettings:
    """What bounds callers: sizes, memory, calls, and what a connection may do."""

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

    stall_timeout_seconds: Annotated[
        float, Declaration(help="How long a call may make no progress; less while others wait.", least=0.1)
    ] = 30.0

    max_connections: Annotated[
        int,
        Declaration(
            help="Connections that each process takes on each address; fewer where there are not so many descriptors.",
            least=1,
            most=1_000_000,
        ),
    ] = 4096

    max_connection_age_seconds: Annotated[
        float,
        Declaration(
            help="When clients are told to connect anew, a tenth sooner or later; calls under way go on. 0: never.",
            least=0,
            most=MAX_TRANSPORT_SECONDS,
        ),
    ] = 600.0  # so long, at most, a server that joins others waits for its part of the load
