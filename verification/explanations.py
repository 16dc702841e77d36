"""For each error reason: its condition, and what the client should do."""

from collections.abc import Mapping
from typing import NamedTuple

from tensor_reshape.client import Reason


class Explanation(NamedTuple):
    when: str  # the condition
    action: str  # what the client should do


EXPLANATIONS: Mapping[Reason, Explanation] = {
    Reason.DATA_TYPE_UNSUPPORTED: Explanation(
        "The operation does not support the data type.", "Use `reshape`, which supports every data type."
    ),
    Reason.SHAPE_DATA_TYPE_UNSUPPORTED: Explanation(
        "The operation does not support the data type of the shape tensor.",
        "Convert the shape tensor to an integer type that the error lists.",
    ),
    Reason.SHAPE_RANK_INVALID: Explanation("The shape tensor does not have rank 1.", "Send a shape tensor of rank 1."),
    Reason.SPECIAL_ZERO_MISSING: Explanation("`special_zero` is not set.", "Set `special_zero` to true or false."),
    Reason.RANK_UNSUPPORTED: Explanation(
        "StaticReshape or DynamicReshape has an input shape or a requested shape with more than 12 dimensions.",
        "Use `reshape`, which supports ranks up to 64.",
    ),
    Reason.DIM_OUT_OF_RANGE: Explanation(
        "An input dimension or a bound of an interval is not from 0 to 2^63 - 1, or every value of an expression is"
        " above 2^63 - 1.",
        "Correct the dimension. If you do not know a dimension, use `None` or `?`.",
    ),
    Reason.INVALID_TARGET_VALUE: Explanation(
        "An item of the requested shape is below -1 or above 2^63 - 1.", "Use a dimension, 0, or one -1."
    ),
    Reason.COPY_INDEX_OUT_OF_RANGE: Explanation(
        "A 0 in the requested shape copies a dimension that the data does not have.",
        "Write the dimension instead of the 0, or move the 0 to an index that the input has.",
    ),
    Reason.MULTIPLE_MINUS_ONE: Explanation("The requested shape has more than one -1.", "Keep only one -1."),
    Reason.MINUS_ONE_WITH_ZERO_VOLUME: Explanation(
        "The product of the other items is 0, so -1 cannot be inferred.", "Write the dimension instead of -1."
    ),
    Reason.NOT_DIVISIBLE: Explanation(
        "The number of elements is not divisible by the product of the other items.",
        "Use other items whose product divides the number of elements. With `explain`, the error suggests values.",
    ),
    Reason.DIM_OVERFLOW: Explanation(
        "The inferred dimension exceeds 2^63 - 1.", "Split the dimension into several items of the requested shape."
    ),
    Reason.VOLUME_MISMATCH: Explanation(
        "The requested shape has another number of elements than the data.",
        "Use items whose product is the number of elements, or write -1 for one item.",
    ),
    Reason.EXPECTED_SHAPE_MISMATCH: Explanation(
        "The output shape differs from `expected_shape`.", "Correct the request or `expected_shape`."
    ),
    Reason.STRIDES_UNSUPPORTED: Explanation(
        "The data has strides, and its elements are smaller than one byte.", "Send such data without strides."
    ),
    Reason.STRIDES_RANK_MISMATCH: Explanation(
        "The number of strides differs from the number of dimensions.", "Send one stride for each dimension."
    ),
    Reason.STRIDE_NEGATIVE: Explanation("A stride is negative.", "Copy the array, so that its strides are positive."),
    Reason.STRIDES_OVERLAP: Explanation(
        "Two elements overlap in memory. A stride of 0 (a broadcast) is allowed.",
        "Correct the strides, or copy the array.",
    ),
    Reason.DATA_SIZE_MISMATCH: Explanation(
        "The number of bytes does not match the data type, dimensions and strides.",
        "Send exactly the bytes of the tensor.",
    ),
    Reason.MESSAGE_MALFORMED: Explanation(
        "The bytes are not an encoding of the message.", "Use stubs that are generated from the `.proto` files."
    ),
    Reason.FIELD_MISSING: Explanation("A required field is not set.", "Set the field that the error names."),
    Reason.OPERATION_UNSPECIFIED: Explanation("InferShape has no operation.", "Set `operation`."),
    Reason.DIM_UNKNOWN: Explanation(
        "A dimension has a kind that this server does not support, because the client is newer.",
        "Update the server, or use an older kind.",
    ),
    Reason.PARTIAL_DIM_INVALID: Explanation(
        "An entry of `partial` does not fit the numbers of its shape: its index is not in order or too large, or the"
        " number at its index is not -1. StaticReshape also rejects every entry, because it executes with data.",
        "Write -1 at the index of each entry, and the entries in the order of their indices.",
    ),
    Reason.INTERVAL_EMPTY: Explanation(
        "The upper bound of an interval is less than the lower bound.", "Correct the bounds."
    ),
    Reason.EXPRESSION_INVALID: Explanation(
        "A symbol has an invalid name, or an expression has no symbols, too many symbols, or a number outside the range"
        " from 1 to 2^63 - 1.",
        "Correct the symbolic expression.",
    ),
    Reason.SYMBOL_CONFLICT: Explanation(
        "The bounds of a symbol, or its uses in several places, exclude every value.",
        "Correct the bounds of the symbol, or use different names.",
    ),
    Reason.DIM_SYNTAX_INVALID: Explanation(
        "A text is not a valid dimension. The SDK and the command line report this error.",
        "Write a number, an interval such as `2..8`, `?`, or a symbol such as `N`.",
    ),
    Reason.BATCH_REFERENCE_INVALID: Explanation(
        "`data_from` of a batch item is not the index of an earlier item, or the item also has an input shape.",
        "Refer to an earlier item, and omit the input shape.",
    ),
    Reason.BATCH_DEPENDENCY_FAILED: Explanation(
        "The batch item that `data_from` refers to was rejected.", "Correct the earlier item."
    ),
    Reason.INTERNAL_ERROR: Explanation(
        "The server has a bug that affected this batch item. The server's log has the traceback, and other items have"
        " results. In Python, you get a `ReshapeError`, not one of its subclasses.",
        "Report the bug with the server's log.",
    ),
    Reason.MODEL_UNKNOWN: Explanation(
        "The model or its version does not exist.", "Use a name and a version of the server's models."
    ),
    Reason.INPUT_INVALID: Explanation(
        "An input has an unknown or repeated name, its elements are in the wrong field, a number does not fit its"
        " datatype, or the input `special_zero` is not one BOOL.",
        "Correct the input that the error names.",
    ),
    Reason.OUTPUT_INVALID: Explanation(
        "A requested output does not exist or is repeated.", "Correct the requested output."
    ),
    Reason.PARAMETER_INVALID: Explanation(
        "A parameter has the wrong type or cannot be parsed, the request has the requested shape twice, the"
        " parameter `special_zero` differs from the input, or a tensor is in shared memory.",
        "Correct the parameter that the error names.",
    ),
    Reason.CHUNK_UNEXPECTED: Explanation(
        "A chunk is empty or does not belong to a tensor, or the message that begins a tensor already has its bytes.",
        "Begin a tensor without bytes, and then send its chunks.",
    ),
    Reason.CHUNK_OUT_OF_ORDER: Explanation(
        "The offset of a chunk is not the end of the previous chunk.", "Send the chunks in order."
    ),
    Reason.UNAUTHENTICATED: Explanation(
        "The server requires [a token](../deployment/authentication.md), and the call has no valid token.",
        "Send a valid token.",
    ),
    Reason.PERMISSION_DENIED: Explanation(
        "The client is authenticated, but may not call this method or this server.",
        "Ask the operator of the server for the permission.",
    ),
    Reason.VIEW_IMPOSSIBLE: Explanation(
        'The strides of the array do not allow a view (`transfer="view", copy="never"`). The SDK reports this error.',
        'Use `copy="if_needed"`.',
    ),
    Reason.RANK_LIMIT_EXCEEDED: Explanation(
        "Reshape has an input shape or a requested shape with more than 64 dimensions.", "Merge dimensions."
    ),
    Reason.OUTPUT_TOO_LARGE: Explanation(
        "The output of a broadcast, or the results of a batch, exceed `--max-message-bytes`.",
        "Send fewer elements or queries, or raise `--max-message-bytes`.",
    ),
    Reason.HEADER_TOO_LARGE: Explanation(
        "A message has more than 64 KiB or 2,048 fields in addition to the bytes of its tensor.",
        "Use fewer and shorter fields.",
    ),
    Reason.BATCH_TOO_LARGE: Explanation(
        "A batch has more than 4 MiB or 65,536 items, or exceeds its budget of computation steps.", "Split the batch."
    ),
    Reason.MESSAGE_TOO_LARGE: Explanation(
        "The message exceeds `--max-message-bytes`. gRPC rejects it without details, and the SDK adds the reason. For a"
        " reshape, the SDK's message has the sizes, for example `the message has 200 MiB, but its receiver allows 16.06"
        " MiB`.",
        'Use `transfer="stream"`, or `transfer="auto"` and a client whose `inline_max_bytes` is below this limit. Or'
        " raise `--max-message-bytes`.",
    ),
    Reason.TENSOR_TOO_LARGE: Explanation(
        "The tensor of a stream exceeds 1 TiB, or has strides and exceeds `--max-message-bytes`.",
        "Copy a strided array before you send it, or split the tensor.",
    ),
    Reason.SERVER_BUSY: Explanation(
        "The call has waited too long for memory or for a thread, the number of running calls has reached"
        " `--max-calls`, or the server needed the memory of a call without progress for other calls.",
        "Retry after the delay. If you often see this error, see [the cause of each"
        " message](../troubleshooting.md#server-busy).",
    ),
    Reason.STALLED: Explanation(
        "The call made no progress for `--stall-timeout-seconds`.",
        "Send and read without long pauses: see [the advice for each cause](../troubleshooting.md#stalled).",
    ),
    Reason.QUOTA_EXCEEDED: Explanation(
        "The client has more running calls, or starts more calls per second, than `--max-calls-per-caller` or"
        " `--max-calls-per-caller-per-second` allows.",
        "Retry after the delay, or make fewer calls.",
    ),
}
