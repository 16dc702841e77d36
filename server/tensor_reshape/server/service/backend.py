"""The numpy backend, which puts the elements of a tensor into the output shape. The reshape rules determine this shape.

The server needs numpy only for tensors with strides. Importing numpy takes 80 ms and 12 MiB of memory, and it blocks
all threads for about 30 ms. A server therefore imports numpy when the first tensor with strides arrives. Until numpy is
imported, worker threads process tensors with strides, because a worker thread may wait for the import. A server that
receives no tensors with strides never imports numpy.
"""

from collections.abc import Callable, Sequence
from functools import cache

from tensor_reshape.rules.errors import LimitError, Reason
from tensor_reshape.rules.layouts import count_bytes
from tensor_reshape.rules.limits import Limits
from tensor_reshape.wire.tensors import TensorView


def reshape(data: TensorView, dims: Sequence[int], limits: Limits) -> TensorView:
    """Returns the elements of `data` in row-major order as a tensor with the shape `dims`.

    The shape `dims` must have as many elements as `data`. The bytes of a dense tensor are not copied, because they are
    already in row-major order. This function never passes the output shape to numpy, because numpy would reject an
    empty tensor with huge dims.

    Raises:
        InvalidRequestError: the received bytes do not match the layout of the tensor (see `rules.layouts`).
        LimitError: the reason is OUTPUT_TOO_LARGE.
    """
    data.check_layout("data")
    size = count_bytes(data.data_type, dims)
    if size > limits.max_output_bytes:
        message = f"the output has {size} bytes; this server allows up to {limits.max_output_bytes}"
        raise LimitError.of(Reason.OUTPUT_TOO_LARGE, message, "data", size=size, limit=limits.max_output_bytes)
    # The strides of a dense tensor are None. The strides of a scalar are empty, and a scalar is also dense.
    if not data.strides:
        return TensorView(data.data_type, dims, None, data.payload)
    return TensorView(data.data_type, dims, None, import_gather()(data))


@cache
def import_gather() -> Callable[[TensorView], memoryview]:
    """Returns `wire.arrays.gather`. The first call takes long, because it imports numpy.

    If the import fails, the error is not cached, so each call with strides tries the import again and reports the
    error.
    """
    from tensor_reshape.wire.arrays import gather  # noqa: PLC0415 - the module docstring has the reason

    return gather


def has_gather() -> bool:
    """Whether numpy is imported, so that a tensor with strides can be processed without waiting for the import."""
    return bool(import_gather.cache_info().currsize)
