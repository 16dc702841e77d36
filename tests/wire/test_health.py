"""The health messages have the encoding of grpc.health.v1."""

from grpc_health.v1 import health_pb2

from tensor_reshape.wire.health import CHECK_METHOD, HealthStatus, decode_check_response, encode_check_request


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
