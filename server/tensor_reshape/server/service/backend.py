"""The numpy backend: moves the elements under a shape that the rules have already decided.

numpy, which only strides need, is imported late: it is a quarter of what a server's start takes. That takes 80 ms, some
ten of them in one step that lets no other thread run. So a server does it by itself, whatever callers send: a worker
just before it serves, a lone server when it has served for a second. Until then, data with strides is for threads that
may wait; the first of them imports numpy, which costs everybody no more than it would have done soon.
"""

from collections.abc import Callable, Sequence
from functools import cache

from tensor_reshape.rules.errors import LimitError, Reason
from tensor_reshape.rules.layouts import count_bytes
from tensor_reshape.rules.limits import Limits
from tensor_reshape.wire.tensors import TensorView


def reshape(data: TensorView, dims: Sequence[int], limits: Limits) -> TensorView:
    """Returns the data's elements in row-major order under `dims`, whose volume is the data's.

    A dense tensor keeps its bytes: its row-major order is their order, so nothing is copied. numpy never sees the
    target shape: it would refuse an empty tensor with huge dims.

    Raises:
        InvalidRequestError: the layout and the bytes received do not agree; see `rules.layouts`.
        LimitError: OUTPUT_TOO_LARGE.
    """
    data.check_layout("data")
    size = count_bytes(data.data_type, dims)
    if size > limits.max_output_bytes:
        message = f"the output has {size} bytes; this server allows up to {limits.max_output_bytes}"
        raise LimitError.of(Reason.OUTPUT_TOO_LARGE, message, "data", size=size, limit=limits.max_output_bytes)
    if not data.strides:  # without dims there are none either
        return TensorView(data.data_type, dims, None, data.payload)
    return TensorView(data.data_type, dims, None, import_gather()(data))


@cache
def import_gather() -> Callable[[TensorView], memoryview]:
    """Returns `wire.arrays.gather`; the first time that takes long, from whichever thread."""
    from tensor_reshape.wire.arrays import gather  # noqa: PLC0415 - late, as said above

    return gather


def has_gather() -> bool:
    """Returns whether data with strides is gathered without a wait for an import."""
    return bool(import_gather.cache_info().currsize)
