"""How much is too much: the specifications' own bounds, and those that a server sets."""

from dataclasses import dataclass

MAX_DIM = 2**63 - 1
"""The largest dim: what an s64 of the specifications holds."""

GRAPH_MAX_RANK = 12
"""The largest rank that oneDNN takes (DNNL_MAX_NDIMS)."""

MAX_RANK = 64
"""The largest rank that numpy takes: the bound, and the default, of what a server may allow for Reshape-1."""

MAX_HEADER_BYTES = 64 * 1024
"""The largest message without its tensor bytes. A legal one of rank 64 stays below 4 KiB."""

MAX_PROTOBUF_BYTES = 2**31 - 1
"""The largest message that protobuf itself can hold."""

MAX_BATCH_BYTES = 4 * 1024 * 1024
MAX_BATCH_ITEMS = 65536
"""The largest batch of questions: it is answered by one thread, in a second or a few."""

LIGHT_HEADER_BYTES = 4 * 1024
"""What a legal message has besides its tensor bytes, at rank 64. Larger ones are read where nobody waits for it."""

MAX_MESSAGE_BYTES = 16 * 1024 * 1024 + MAX_HEADER_BYTES
"""The default of the largest message that a server takes, and of the largest output: 16 MiB of tensor, and its header.

Larger tensors go through StreamReshape. Whoever reads a message must have room for the largest, so it costs calls.
"""

MAX_TENSOR_BYTES = 2**40
"""The default of the largest tensor on a stream."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What one server allows.

    Attributes:
        max_rank: of data and target of Reshape-1; the other operations have the bound of their specification.
        max_output_bytes: a stride of 0 lets one byte stand for a terabyte, so the output is bounded too. Also what a
            tensor with strides may take on a stream.
        max_tensor_bytes: of a dense tensor on a stream, whose bytes pass through.
    """

    max_rank: int = MAX_RANK
    max_output_bytes: int = MAX_MESSAGE_BYTES
    max_tensor_bytes: int = MAX_TENSOR_BYTES


DEFAULT_LIMITS = Limits()
