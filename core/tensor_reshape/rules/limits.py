"""Limits of the specifications, and limits that a server sets."""

from dataclasses import dataclass

MAX_DIM = 2**63 - 1
"""The largest dim: the largest s64."""

GRAPH_MAX_RANK = 12
"""The largest rank in oneDNN (DNNL_MAX_NDIMS)."""

MAX_RANK = 64
"""The largest rank in numpy. It is the default and the maximum of a server's limit for Reshape-1."""

MAX_HEADER_BYTES = 64 * 1024
"""The largest message, not counting its tensor bytes. A valid message of rank 64 needs less than 4 KiB."""

MAX_PROTOBUF_BYTES = 2**31 - 1
"""The largest message that protobuf supports."""

MAX_BATCH_BYTES = 4 * 1024 * 1024
MAX_BATCH_ITEMS = 65536
"""The largest batch. One thread needs one to a few seconds for it."""

LIGHT_HEADER_BYTES = 4 * 1024
"""The size of a valid message without its tensor bytes, at rank 64. Larger ones are read on a worker thread."""

MAX_MESSAGE_BYTES = 16 * 1024 * 1024 + MAX_HEADER_BYTES
"""Default of the largest message that a server accepts, and of the largest output: 16 MiB of tensor and its header.

Larger tensors use StreamReshape. A server reserves memory for the largest message of each call, so a larger limit
allows fewer calls.
"""

MAX_TENSOR_BYTES = 2**40
"""Default of the largest tensor of a stream."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The limits of one server.

    Attributes:
        max_rank: largest rank of data and target of Reshape-1. The other operations have the limit of their
            specification.
        max_output_bytes: largest output. It is needed because a stride of 0 can turn one byte into a terabyte. It is
            also the limit of a tensor with strides on a stream.
        max_tensor_bytes: largest dense tensor on a stream, which is not kept in memory.
    """

    max_rank: int = MAX_RANK
    max_output_bytes: int = MAX_MESSAGE_BYTES
    max_tensor_bytes: int = MAX_TENSOR_BYTES


DEFAULT_LIMITS = Limits()
