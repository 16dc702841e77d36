"""The table of methods says what the contract says."""

import pytest

from tensor_reshape.rules.operations import OPERATIONS, Operation
from tensor_reshape.v1 import reshape_pb2
from tensor_reshape.wire.methods import (
    BATCH_INFER_SHAPE,
    INFER_SHAPE,
    OPERATION_METHODS,
    OPERATIONS_BY_NUMBER,
    SERVER_INFO,
    SERVICE,
    STREAM_RESHAPE,
    split_method,
)

CONTRACT = reshape_pb2.DESCRIPTOR.services_by_name["ReshapeService"]
TABLE = [*OPERATION_METHODS.values(), INFER_SHAPE, BATCH_INFER_SHAPE, STREAM_RESHAPE, SERVER_INFO]


def test_the_service_has_its_permanent_name():
    assert SERVICE == "tensor_reshape.v1.ReshapeService"


def test_every_method_of_the_contract_has_its_row():
    contract = {
        (f"/{SERVICE}/{method.name}", method.input_type.full_name, method.output_type.full_name)
        for method in CONTRACT.methods
    }
    table = {(row.path, row.request.DESCRIPTOR.full_name, row.response.DESCRIPTOR.full_name) for row in TABLE}
    assert table == contract
    assert len(TABLE) == len(contract)


def test_every_operation_has_its_method():
    assert list(OPERATION_METHODS) == list(OPERATIONS.values())


@pytest.mark.parametrize("operation", OPERATION_METHODS, ids=lambda operation: operation.name)
def test_an_operation_has_the_number_of_its_name_in_the_contract(operation: Operation):
    number = reshape_pb2.Operation.Value(f"OPERATION_{operation.name.upper()}")
    assert OPERATION_METHODS[operation].number == number
    assert OPERATIONS_BY_NUMBER[number] is operation


def test_the_operations_of_the_contract_are_those_of_the_table():
    named = {number for name, number in reshape_pb2.Operation.items() if name != "OPERATION_UNSPECIFIED"}
    assert OPERATIONS_BY_NUMBER.keys() == named


def test_a_tensor_on_a_stream_begins_with_a_field_of_the_name_of_its_operation():
    part = reshape_pb2.StreamReshapeRequest.DESCRIPTOR.oneofs_by_name["part"]
    begins = {field.name: field.message_type for field in part.fields if field.message_type is not None}
    assert begins == {row.operation.name: row.request.DESCRIPTOR for row in OPERATION_METHODS.values()}


def test_only_the_stream_takes_more_than_one_message():
    streams = {method.name for method in CONTRACT.methods if method.client_streaming or method.server_streaming}
    assert streams == {STREAM_RESHAPE.name}


@pytest.mark.parametrize(("name", "method"), [("/a.b/C", ("a.b", "C")), ("/a/b/C", ("a/b", "C")), ("C", ("", "C"))])
def test_a_name_is_a_service_and_a_method(name: str, method: tuple[str, str]):
    assert split_method(name) == method
