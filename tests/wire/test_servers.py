"""ServerInfo and health messages round-trip, and unknown values of newer servers are ignored."""

from dataclasses import fields, replace

import pytest
from grpc_health.v1 import health_pb2

from tensor_reshape.rules.dtypes import DataType
from tensor_reshape.rules.errors import InvalidRequestError, Reason
from tensor_reshape.rules.operations import OPERATIONS
from tensor_reshape.v1 import reshape_pb2, tensor_pb2
from tensor_reshape.wire.servers import (
    CHECK_METHOD,
    Feature,
    HealthStatus,
    ServerInfo,
    ServerLimits,
    decode_check_response,
    decode_server_info,
    describe_operation,
    encode_check_request,
    encode_server_info,
)

LIMITS = ServerLimits(**{field.name: number for number, field in enumerate(fields(ServerLimits), start=10)})
INFO = ServerInfo(
    version="1.2.3",
    limits=LIMITS,
    operations={one.name: describe_operation(one, 31) for one in OPERATIONS.values()},
    features=frozenset({Feature.REFLECTION, Feature.OPEN_INFERENCE}),
)


def test_encoded_server_info_is_decoded_unchanged():
    assert decode_server_info(encode_server_info(INFO)) == INFO
    ranks = {name: one.max_rank for name, one in INFO.operations.items()}
    assert ranks == {"static_reshape": 12, "dynamic_reshape": 12, "reshape": 31}
    message = reshape_pb2.ServerInfoResponse.FromString(encode_server_info(INFO))
    assert [int(number) for number in message.operations[2].data_types] == sorted(map(int, DataType))


def test_server_info_encoding_matches_the_protobuf_class():
    kind = reshape_pb2.ServerInfoResponse
    described = [
        reshape_pb2.OperationInfo(
            operation=reshape_pb2.Operation.ValueType(number),
            max_rank=operation.max_rank,
            data_types=sorted(map(tensor_pb2.DataType.ValueType, operation.data_types)),
            shape_data_types=sorted(map(tensor_pb2.DataType.ValueType, operation.shape_data_types)),
        )
        for number, operation in (
            (1, INFO.operations["static_reshape"]),
            (2, INFO.operations["dynamic_reshape"]),
            (3, INFO.operations["reshape"]),
        )
    ]
    limits = reshape_pb2.ServerLimits(**{field.name: getattr(LIMITS, field.name) for field in fields(ServerLimits)})
    features = {Feature.REFLECTION: kind.FEATURE_REFLECTION, Feature.OPEN_INFERENCE: kind.FEATURE_OPEN_INFERENCE}
    for chosen in ({}, *({feature: number} for feature, number in features.items()), features):
        info = replace(INFO, features=frozenset(chosen))
        message = kind(version="1.2.3", limits=limits, operations=described, features=chosen.values())
        assert kind.FromString(encode_server_info(info)) == message
        assert decode_server_info(message.SerializeToString()) == info


def test_server_info_names_match_the_proto_definition():
    limits = {field.name for field in reshape_pb2.ServerLimits.DESCRIPTOR.fields}
    assert limits == {field.name for field in fields(ServerLimits)}
    named = {value.name for value in reshape_pb2.ServerInfoResponse.Feature.DESCRIPTOR.values if value.number}
    assert named == {feature.value for feature in Feature}


def test_unknown_server_info_fields_are_ignored():
    message = reshape_pb2.ServerInfoResponse.FromString(encode_server_info(INFO))
    message.operations[0].data_types.append(999)  # type: ignore[arg-type] # values of a newer API
    message.operations.add(operation=99)
    message.features.extend([0, 99])  # type: ignore[list-item]
    assert decode_server_info(message.SerializeToString() + b"\xfa\x3f\x01x") == INFO


def test_empty_server_info_has_no_limits():
    empty = decode_server_info(b"")
    assert (empty.version, empty.limits.max_message_bytes, empty.operations, empty.features) == ("", 0, {}, frozenset())
    for read, name in ((decode_server_info, "v1.ServerInfoResponse"), (decode_check_response, "HealthCheckResponse")):
        with pytest.raises(InvalidRequestError, match=name) as caught:
            read(b"\xff")
        assert caught.value.reason is Reason.MESSAGE_MALFORMED


def decode(number: int) -> HealthStatus:
    status = health_pb2.HealthCheckResponse.ServingStatus.ValueType(number)
    return decode_check_response(health_pb2.HealthCheckResponse(status=status).SerializeToString())


def test_encoded_health_request_matches_grpcio_health_checking():
    for service in ("", "tensor_reshape.v1.ReshapeService", "ü" * 100):
        assert encode_check_request(service) == health_pb2.HealthCheckRequest(service=service).SerializeToString()
    contract = health_pb2.DESCRIPTOR.services_by_name["Health"]
    assert f"/{contract.full_name}/{contract.methods_by_name['Check'].name}" == CHECK_METHOD


def test_health_status_numbers_match_grpcio_health_checking():
    numbers = dict(health_pb2.HealthCheckResponse.ServingStatus.items())
    assert {status.name: status.value for status in HealthStatus} == numbers
    assert {name: decode(number).name for name, number in numbers.items()} == {name: name for name in numbers}
    assert {decode(number) for number in (4, 2**31 - 1, -1)} == {HealthStatus.UNKNOWN}
