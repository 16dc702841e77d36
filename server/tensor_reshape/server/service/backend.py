"""The numpy backend: moves the elements into a shape that the rules have already determined.

Only strides need numpy, whose import takes a quarter of a server's start. It takes 80 ms, ten of them in one step that
blocks all threads. A server therefore imports numpy at a fixed time, whatever clients send: a worker just before it
serves, a server without workers after it has served for a second. Until then, data with strides is processed on threads
that may wait, and the first of them imports numpy.
"""

from collections.abc import Callable, Sequence
from functools import cache

from tensor_reshape.rules.errors import LimitError, Reason
from tensor_reshape.rules.layouts import count_bytes
from tensor_reshape.rules.limits import Limits
from tensor_reshape.wire.tensors import TensorView


def reshape(data: TensorView, dims: Sequence[int], limits: Limits) -> TensorView:
    """Returns the data's elements in row-major order with shape `dims`, which has the same number of elements.

    A dense tensor keeps its bytes without a copy, because they already are in row-major order. numpy never gets the
    output shape, because it would reject an empty tensor with huge dims.

    Raises:
        InvalidRequestError: the layout and the received bytes do not match; see `rules.layouts`.
        LimitError: OUTPUT_TOO_LARGE.
    """
    data.check_layout("data")
    size = count_bytes(data.data_type, dims)
    if size > limits.max_output_bytes:
        message = f"the output has {size} bytes; this server allows up to {limits.max_output_bytes}"
        raise LimitError.of(Reason.OUTPUT_TOO_LARGE, message, "data", size=size, limit=limits.max_output_bytes)
    if not data.strides:  # always empty without dims
        return TensorView(data.data_type, dims, None, data.payload)
    return TensorView(data.data_type, dims, None, import_gather()(data))


@cache
def import_gather() -> Callable[[TensorView], memoryview]:
    """Returns `wire.arrays.gather`. The first call takes long, on any thread."""
    from tensor_reshape.wire.arrays import gather  # noqa: PLC0415 - late; the module docstring says why

    return gather


def has_gather() -> bool:
    """Returns whether data with strides can be gathered without waiting for an import."""
    return bool(import_gather.cache_info().currsize)
