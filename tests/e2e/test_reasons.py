"""A real server returns every reason with its code, its rule and a message with the right values."""

from tensor_reshape.client import Reason
from verification.provocations import provoke, run_servers

MESSAGES = {
    Reason.DATA_TYPE_UNSUPPORTED: (
        "data has the type f64; static_reshape takes f16, bf16, f32; reshape takes every type"
    ),
    Reason.SHAPE_DATA_TYPE_UNSUPPORTED: "shape has the type f32; reshape takes i8, i16, i32, i64, u8, u16, u32, u64",
    Reason.SHAPE_RANK_INVALID: "shape has rank 0; a requested shape must be a tensor of rank 1",
    Reason.SPECIAL_ZERO_MISSING: "special_zero is required and has no default",
    Reason.RANK_UNSUPPORTED: "data.dims has 13 items; static_reshape takes up to 12",
    Reason.DIM_OUT_OF_RANGE: "data.dims[1] is -3; a dimension must be from 0 to 2^63 - 1",
    Reason.INVALID_TARGET_VALUE: (
        "shape[0] is -2: an item of the requested shape must be from -1 to 2^63 - 1; "
        "requested shape [-2, 3], input shape [2, 3]"
    ),
    Reason.COPY_INDEX_OUT_OF_RANGE: (
        "shape[2] is 0: special_zero copies input dimension 2, but the input has rank 2; "
        "requested shape [6, 1, 0], input shape [2, 3]"
    ),
    Reason.MULTIPLE_MINUS_ONE: (
        "shape[1] is -1: only one item may be -1, and shape[0] is -1 as well; "
        "requested shape [-1, -1], input shape [2, 3]"
    ),
    Reason.MINUS_ONE_WITH_ZERO_VOLUME: (
        "shape[1] is -1: it cannot be computed, because the product of the other items is 0; "
        "requested shape [0, -1], input shape [0, 3]"
    ),
    Reason.NOT_DIVISIBLE: (
        "shape[1] is -1: 6 elements are not divisible by 4, the product of the other items; "
        "requested shape [4, -1], input shape [2, 3]; "
        "accepted: other items whose product divides 6: the nearest are 3 and 6"
    ),
    Reason.DIM_OVERFLOW: (
        "shape[0] is -1: the inferred dimension 18446744073709551616 exceeds 2^63 - 1; "
        "requested shape [-1], input shape [4611686018427387904, 4]"
    ),
    Reason.VOLUME_MISMATCH: (
        "requested shape [4, 2] has 8 elements, but input shape [2, 3] has 6; "
        "accepted: items whose product is 6: 3, or -1, for shape[0]"
    ),
    Reason.EXPECTED_SHAPE_MISMATCH: "output dimension 0 is 6; expected_shape.dims[0] is 7",
    Reason.STRIDES_UNSUPPORTED: "data has strides; elements of type u4 share bytes and must be dense",
    Reason.STRIDES_RANK_MISMATCH: "data.strides has 1 items; the tensor has rank 2",
    Reason.STRIDE_NEGATIVE: "data.strides[0] is -3; a stride must not be negative",
    Reason.STRIDES_OVERLAP: "data.strides [1, 1] give two elements of [2, 3] the same position",
    Reason.DATA_SIZE_MISMATCH: "data.data has 20 bytes; data type, dimensions and strides require 24",
    Reason.MESSAGE_MALFORMED: "the message is not a tensor_reshape.v1.StaticReshapeRequest",
    Reason.FIELD_MISSING: "data is required",
    Reason.OPERATION_UNSPECIFIED: (
        "operation is 0, which is not an operation; use one of OPERATION_STATIC_RESHAPE (1), "
        "OPERATION_DYNAMIC_RESHAPE (2), OPERATION_RESHAPE (3), OPERATION_ONNX_RESHAPE (4)"
    ),
    Reason.DIM_UNKNOWN: "data.dims[0] has a kind that this server does not know",
    Reason.PARTIAL_DIM_INVALID: "shape.partial[0] describes shape[1], which is 3; the number must be -1",
    Reason.INTERVAL_EMPTY: "data.dims[0] lies from 4 to 2, which contains no value",
    Reason.EXPRESSION_INVALID: "data.dims[0] has 0 symbols; an expression must have 1 to 64",
    Reason.DIM_SYNTAX_INVALID: (
        "'2..x' is not a valid dimension: write a number, lo..hi, lo.., ?, a name, name:lo..hi, or a product such "
        "as 4*C or N/2; put any other name in quotes: 'my dim'"
    ),
    Reason.SYMBOL_CONFLICT: "N has no possible value: its bounds in the query give 5 to 3",
    Reason.BATCH_REFERENCE_INVALID: "data_from is 0; item 0 can only use the output of an earlier item",
    Reason.BATCH_DEPENDENCY_FAILED: "the input is the output of item 0, and item 0 was rejected",
    Reason.INTERNAL_ERROR: "internal error",
    Reason.MODEL_UNKNOWN: (
        "Request for unknown model: 'resnet' is not found; this server has static_reshape, dynamic_reshape, "
        "reshape, infer_shape"
    ),
    Reason.INPUT_INVALID: (
        "unexpected inference input 'image' for model 'reshape', whose inputs are data, shape, special_zero"
    ),
    Reason.OUTPUT_INVALID: "inference output 'probabilities' is unexpected; model 'reshape' has 'output'",
    Reason.PARAMETER_INVALID: "parameters[shape] is '2, 3'; it must be a list of integers, such as \"[0,-1]\"",
    Reason.CHUNK_UNEXPECTED: (
        "the chunk at offset 0 does not belong to a tensor, because no tensor has begun or the last tensor is complete"
    ),
    Reason.CHUNK_OUT_OF_ORDER: "the chunk has offset 3; the next one must have offset 0",
    Reason.RANK_LIMIT_EXCEEDED: "data.dims has 65 items; this server takes up to 64",
    Reason.OUTPUT_TOO_LARGE: "the output has 2097152 bytes; this server allows up to 1048576",
    Reason.HEADER_TOO_LARGE: (
        "the message has 70005 or more bytes, not counting those of its tensor; at most 65536 are allowed"
    ),
    Reason.MESSAGE_TOO_LARGE: "CLIENT: Received message larger than max (16842753 vs. 16842752)",
    Reason.TENSOR_TOO_LARGE: (
        "the tensor has 2199023255552 bytes; this server allows up to 1099511627776 bytes for a dense tensor"
    ),
    Reason.BATCH_TOO_LARGE: "the batch has more than 65536 items",
    Reason.SERVER_BUSY: "the call could not begin in time, because too many calls wait; "
    "the limit of running calls is 2 (--max-calls); retry later",
    Reason.STALLED: "the call has made no progress for 0.2 seconds (--stall-timeout-seconds)",
    Reason.QUOTA_EXCEEDED: "this caller has 2 running calls, and the limit is 2",
    Reason.UNAUTHENTICATED: "the call has no valid token",
    Reason.PERMISSION_DENIED: "this caller may not call this method",
    Reason.VIEW_IMPOSSIBLE: 'the strides of the array do not allow a view of shape [6]: pass copy="if_needed"',
}


def test_each_error_reason_can_be_provoked_on_a_server():
    with run_servers() as servers:
        assert {reason: provoke(reason, servers).message for reason in Reason} == MESSAGES
