"""The numpy backend: moves the elements under a shape that the rules have already decided.

numpy is imported by the first call that needs it, one with strides: it is a quarter of what a server's start takes, and
of the memory of each worker, and most callers send dense tensors.
"""

from collections.abc import Sequence

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
        message = f"the output takes {size} bytes; this server answers with up to {limits.max_output_bytes}"
        raise LimitError.of(Reason.OUTPUT_TOO_LARGE, message, "data", size=size, limit=limits.max_output_bytes)
    if data.strides is None:
        return TensorView(data.data_type, dims, None, data.payload)
    from tensor_reshape.wire.arrays import gather  # noqa: PLC0415 - late, as said above

    return TensorView(data.data_type, dims, None, gather(data))
