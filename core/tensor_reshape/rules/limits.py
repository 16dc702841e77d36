"""Limits from the specifications, and further limits that a server may set."""

from dataclasses import dataclass

MAX_DIM = 2**63 - 1
"""The largest dim, which is the largest s64."""

GRAPH_MAX_RANK = 12
"""The largest rank that oneDNN supports (DNNL_MAX_NDIMS)."""

MAX_RANK = 64
"""The largest rank that numpy supports. A server's rank limit for Reshape-1 has this default and this maximum."""

MAX_HEADER_BYTES = 64 * 1024
"""The largest message, not counting its tensor bytes. A valid message with a tensor of rank 64 needs less than 4 KiB.
"""

MAX_PROTOBUF_BYTES = 2**31 - 1
"""The size of the largest message that protobuf supports."""

MAX_BATCH_BYTES = 4 * 1024 * 1024
MAX_BATCH_ITEMS = 65536
"""The number of queries in the largest batch. One thread needs one to a few seconds to answer this number of queries.
"""

LIGHT_HEADER_BYTES = 4 * 1024
"""The largest valid message at rank 64, not counting its tensor bytes. A larger header is read on a worker thread."""

MAX_MESSAGE_BYTES = 16 * 1024 * 1024 + MAX_HEADER_BYTES
"""The default limit of received messages and of outputs: 16 MiB for the tensor, and the header.

Clients send larger tensors with StreamReshape. A server reserves memory for the largest allowed message of each call,
so a larger limit allows fewer concurrent calls.
"""

MAX_TENSOR_BYTES = 2**40
"""The default limit of a tensor on a stream."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The limits that one server has set.

    Attributes:
        max_rank: the largest rank of data and target of Reshape-1. The specifications of the other operations define
            the limits of these operations.
        max_output_bytes: the largest size of an output. This limit is necessary, because a stride of 0 can turn one
            byte of input into a terabyte of output. The limit also applies to tensors with strides on a stream.
        max_tensor_bytes: the largest size of a dense tensor on a stream. The server does not keep the whole tensor in
            memory.
    """

    max_rank: int = MAX_RANK
    max_output_bytes: int = MAX_MESSAGE_BYTES
    max_tensor_bytes: int = MAX_TENSOR_BYTES


DEFAULT_LIMITS = Limits()
