"""Every reason is given by a real server, with its code, its rule and a message of the right values."""

from tensor_reshape.client import Reason
from verification.document.provocations import provoke
from verification.document.servers import run_servers

MESSAGES = {
    Reason.DATA_TYPE_UNSUPPORTED: (
        "data has the type f64; static_reshape takes f16, bf16, f32; reshape takes every type"
    ),
    Reason.SHAPE_DATA_TYPE_UNSUPPORTED: "shape has the type f32; reshape takes i8, i16, i32, i64, u8, u16, u32, u64",
    Reason.SHAPE_RANK_INVALID: "shape has rank 0; a target shape is a tensor of rank 1",
    Reason.SPECIAL_ZERO_MISSING: "special_zero is required and has no default",
    Reason.RANK_UNSUPPORTED: "data.dims has 13 items; static_reshape takes up to 12",
    Reason.DIM_OUT_OF_RANGE: "data.dims[1] is -3; a dim lies from 0 to 2^63 - 1",
    Reason.INVALID_TARGET_VALUE: "shape[0] is -2: a target value lies from -1 to 2^63 - 1; shape [-2, 3], data [2, 3]",
    Reason.COPY_INDEX_OUT_OF_RANGE: (
        "shape[2] is 0: special_zero copies data dim 2, but the data has rank 2; shape [6, 1, 0], data [2, 3]"
    ),
    Reason.MULTIPLE_MINUS_ONE: (
        "shape[1] is -1: only one dim can be inferred, and shape[0] is -1 already; shape [-1, -1], data [2, 3]"
    ),
    Reason.MINUS_ONE_WITH_ZERO_VOLUME: (
        "shape[1] is -1: the other items have the product 0, so this dim cannot be inferred; shape [0, -1], data [0, 3]"
    ),
    Reason.NOT_DIVISIBLE: (
        "shape[1] is -1: 6 elements do not divide by 4, the product of the other items; shape [4, -1], data [2, "
        "3]; accepted: other items whose product divides 6: the nearest are 3 and 6"
    ),
    Reason.DIM_OVERFLOW: (
        "shape[0] is -1: the inferred dim 18446744073709551616 exceeds 2^63 - 1; shape [-1], data "
        "[4611686018427387904, 4]"
    ),
    Reason.VOLUME_MISMATCH: (
        "shape [4, 2] asks for 8 elements; data of shape [2, 3] has 6; accepted: items whose product is 6: 3, or "
        "-1, for shape[0]"
    ),
    Reason.EXPECTED_SHAPE_MISMATCH: "the output dim 0 is 6; expected_shape.dims[0] is 7",
    Reason.STRIDES_UNSUPPORTED: "data has strides; elements of type u4 share bytes, and are taken dense only",
    Reason.STRIDES_RANK_MISMATCH: "data.strides has 1 items; the tensor has rank 2",
    Reason.STRIDE_NEGATIVE: "data.strides[0] is -3; a stride is not negative",
    Reason.STRIDES_OVERLAP: "data.strides [1, 1] put two elements of [2, 3] at one place",
    Reason.DATA_SIZE_MISMATCH: "data.data has 20 bytes; the data type, dims and strides make 24",
    Reason.MESSAGE_MALFORMED: "the message is not a tensor_reshape.v1.StaticReshapeRequest",
    Reason.FIELD_MISSING: "data is required",
    Reason.OPERATION_UNSPECIFIED: "operation is 0, which names no operation",
    Reason.DIM_UNKNOWN: "data.dims[0] is of a kind that this server does not know",
    Reason.INTERVAL_EMPTY: "data.dims[0] lies from 4 to 2, which holds no dim",
    Reason.EXPRESSION_INVALID: "data.dims[0] has 0 symbols; an expression has from 1 to 64",
    Reason.DIM_SYNTAX_INVALID: (
        "'2..x' is no dim: write a number, lo..hi, lo.., ?, a name, name:lo..hi, or a product such as 4*C or N/2; "
        "any other name stands in quotes: 'my dim'"
    ),
    Reason.SYMBOL_CONFLICT: "N would have to lie from 5 to 3, by what is said of it in several places",
    Reason.BATCH_REFERENCE_INVALID: "data_from is 0; item 0 takes the output of an earlier one",
    Reason.BATCH_DEPENDENCY_FAILED: "item 0, whose output is the data, was refused",
    Reason.INTERNAL_ERROR: "internal error",
    Reason.MODEL_UNKNOWN: (
        "Request for unknown model: 'resnet' is not found; this server has static_reshape, dynamic_reshape, "
        "reshape, infer_shape"
    ),
    Reason.INPUT_INVALID: "unexpected inference input 'image' for model 'reshape', whose inputs are 'data' and 'shape'",
    Reason.OUTPUT_INVALID: "inference output 'probabilities' is unexpected; model 'reshape' has 'output'",
    Reason.PARAMETER_INVALID: "parameters[shape] is '2, 3'; it is a list of integers, as \"[0,-1]\"",
    Reason.SHARED_MEMORY_DISABLED: "this server takes no shared memory; send the tensor in the message",
    Reason.REGION_INVALID: "key is '../secret'; it is the name of a file, with or without one slash in front",
    Reason.REGION_UNKNOWN: "Unable to find shared memory region: 'one'",
    Reason.REGION_OUT_OF_RANGE: "the file of the region 'one', of 16 bytes, does not hold 16 bytes at offset 8",
    Reason.REGION_FILE_INVALID: "the file of the region 'one' cannot be used: No such file or directory",
    Reason.REGION_LIMIT_EXCEEDED: "1024 regions are registered; there may be no more",
    Reason.CHUNK_UNEXPECTED: "the chunk at offset 0 belongs to no tensor: none has begun, or all of it is here",
    Reason.CHUNK_OUT_OF_ORDER: "the chunk has offset 3; the next one is at 0",
    Reason.RANK_LIMIT_EXCEEDED: "data.dims has 65 items; this server takes up to 64",
    Reason.OUTPUT_TOO_LARGE: "the output takes 2097152 bytes; this server answers with up to 1048576",
    Reason.HEADER_TOO_LARGE: "the message has 70005 or more bytes besides its tensor's; 65536 are admitted",
    Reason.MESSAGE_TOO_LARGE: "CLIENT: Received message larger than max (16842753 vs. 16842752)",
    Reason.TENSOR_TOO_LARGE: "the tensor takes 2199023255552 bytes; this server takes up to 1099511627776 in this form",
    Reason.BATCH_TOO_LARGE: "the batch has more than 65536 items",
    Reason.SERVER_BUSY: "2 calls are running; this server allows 2 (--max-calls)",
    Reason.STALLED: "the call has made no progress for 0.2 seconds",
    Reason.QUOTA_EXCEEDED: "this caller has 2 running calls, and the limit is 2",
    Reason.UNAUTHENTICATED: "the call shows no token that this server takes",
    Reason.PERMISSION_DENIED: "this caller may not call this method",
    Reason.VIEW_IMPOSSIBLE: "an array of shape [3, 2] and these strides is no view of shape [6]",
}


def test_servers_refuse_a_request_for_each_reason_with_its_message():
    with run_servers() as servers:
        assert {reason: provoke(reason, servers) for reason in Reason} == MESSAGES
