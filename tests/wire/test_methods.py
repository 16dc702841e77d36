"""The table of methods matches the protobuf definition."""

from tensor_reshape.rules.operations import ONNX_RESHAPE, OPERATIONS
from tensor_reshape.v1 import reshape_pb2
from tensor_reshape.wire.methods import (
    BATCH_INFER_SHAPE,
    INFER_SHAPE,
    OPERATION_METHODS,
    OPERATION_NUMBERS,
    OPERATIONS_BY_NUMBER,
    SERVER_INFO,
    SERVICE,
    STREAM_RESHAPE,
    split_method,
)

CONTRACT = reshape_pb2.DESCRIPTOR.services_by_name["ReshapeService"]
TABLE = [*OPERATION_METHODS.values(), INFER_SHAPE, BATCH_INFER_SHAPE, STREAM_RESHAPE, SERVER_INFO]


def test_method_table_covers_every_proto_method():
    assert SERVICE == "tensor_reshape.v1.ReshapeService"
    contract = [
        (f"/{SERVICE}/{method.name}", method.input_type.full_name, method.output_type.full_name)
        for method in CONTRACT.methods
    ]
    table = [(row.path, row.request.DESCRIPTOR.full_name, row.response.DESCRIPTOR.full_name) for row in TABLE]
    assert sorted(table) == sorted(contract)


def test_every_operation_has_a_method_and_a_number():
    assert list(OPERATION_METHODS) == list(OPERATIONS.values())
    numbers = {name.removeprefix("OPERATION_").lower(): number for name, number in reshape_pb2.Operation.items()}
    del numbers["unspecified"]
    assert {operation.name: number for number, operation in OPERATIONS_BY_NUMBER.items()} == numbers
    assert {operation.name: number for operation, number in OPERATION_NUMBERS.items()} == numbers
    assert OPERATION_METHODS.keys() == OPERATION_NUMBERS.keys() - {ONNX_RESHAPE}


def test_stream_request_field_has_the_name_of_its_operation():
    part = reshape_pb2.StreamReshapeRequest.DESCRIPTOR.oneofs_by_name["part"]
    begins = {field.name: field.message_type for field in part.fields if field.message_type is not None}
    assert begins == {row.operation.name: row.request.DESCRIPTOR for row in OPERATION_METHODS.values()}
    streams = {method.name for method in CONTRACT.methods if method.client_streaming or method.server_streaming}
    assert streams == {STREAM_RESHAPE.name}


def test_method_path_has_service_and_method():
    parts = {"/a.b/C": ("a.b", "C"), "/a/b/C": ("a/b", "C"), "C": ("", "C")}
    assert {path: split_method(path) for path in parts} == parts
