"""What a server says of itself is read as it was written; what a newer one says besides is passed over."""

from dataclasses import fields

import pytest

from tensor_reshape.rules.dtypes import DataType
from tensor_reshape.rules.errors import InvalidRequestError
from tensor_reshape.rules.operations import OPERATIONS
from tensor_reshape.v1 import reshape_pb2
from tensor_reshape.wire.servers import (
    Feature,
    ServerInfo,
    ServerLimits,
    decode_server_info,
    describe_operation,
    encode_server_info,
)

LIMITS = ServerLimits(**{field.name: number for number, field in enumerate(fields(ServerLimits), start=10)})
INFO = ServerInfo(
    version="1.2.3",
    serving="inline",
    limits=LIMITS,
    operations={name: describe_operation(operation, 31) for name, operation in OPERATIONS.items()},
    features=frozenset({Feature.REFLECTION, Feature.SHARED_MEMORY}),
)


def test_what_is_written_is_read():
    assert decode_server_info(encode_server_info(INFO)) == INFO


def test_the_limit_of_the_rank_is_the_specifications_or_else_the_servers():
    assert {name: one.max_rank for name, one in INFO.operations.items()} == {
        "static_reshape": 12,
        "dynamic_reshape": 12,
        "reshape": 31,
    }


def test_every_limit_and_every_feature_of_the_contract_has_its_name_here():
    assert {field.name for field in reshape_pb2.ServerLimits.DESCRIPTOR.fields} == {
        field.name for field in fields(ServerLimits)
    }
    named = {value.name for value in reshape_pb2.ServerInfoResponse.Feature.DESCRIPTOR.values if value.number}
    assert named == {feature.value for feature in Feature}


def test_what_a_newer_server_knows_besides_is_passed_over():
    message = reshape_pb2.ServerInfoResponse.FromString(encode_server_info(INFO))
    message.operations[0].data_types.append(999)  # type: ignore[arg-type] # of a newer contract
    message.operations.add(operation=99)
    message.features.append(99)  # type: ignore[arg-type]
    unknown_field = b"\xfa\x3f\x01x"

    assert decode_server_info(message.SerializeToString() + unknown_field) == INFO


def test_an_empty_answer_tells_no_limit():
    told = decode_server_info(b"")

    assert (told.version, told.limits.max_message_bytes, told.operations, told.features) == ("", 0, {}, frozenset())


def test_garbage_is_refused():
    with pytest.raises(InvalidRequestError):
        decode_server_info(b"\xff")


def test_types_are_written_in_the_order_of_their_numbers():
    message = reshape_pb2.ServerInfoResponse.FromString(encode_server_info(INFO))

    assert [int(number) for number in message.operations[2].data_types] == sorted(map(int, DataType))
