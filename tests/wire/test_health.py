"""The health messages are those of grpc.health.v1."""

import pytest
from grpc_health.v1 import health_pb2

from tensor_reshape.wire.health import CHECK_METHOD, HealthStatus, decode_check_response, encode_check_request


@pytest.mark.parametrize("service", ["", "tensor_reshape.v1.ReshapeService", "ü" * 100], ids=["server", "service", "ü"])
def test_a_request_is_what_the_health_package_writes(service: str):
    assert encode_check_request(service) == health_pb2.HealthCheckRequest(service=service).SerializeToString()


@pytest.mark.parametrize("status", HealthStatus, ids=lambda status: status.name)
def test_a_status_is_read_as_the_health_package_writes_it(status: HealthStatus):
    raw = health_pb2.HealthCheckResponse(status=health_pb2.HealthCheckResponse.ServingStatus.Value(status.name))
    assert decode_check_response(raw.SerializeToString()) is status


def test_the_statuses_are_those_of_the_health_package():
    statuses = health_pb2.HealthCheckResponse.ServingStatus
    assert {status.name: status.value for status in HealthStatus} == dict(statuses.items())


@pytest.mark.parametrize("number", [4, 2**31 - 1, -1], ids=str)
def test_a_status_to_come_is_unknown(number: int):
    raw = health_pb2.HealthCheckResponse(status=number).SerializeToString()
    assert decode_check_response(raw) is HealthStatus.UNKNOWN


def test_the_method_is_that_of_the_health_package():
    service = health_pb2.DESCRIPTOR.services_by_name["Health"]
    assert f"/{service.full_name}/{service.methods_by_name['Check'].name}" == CHECK_METHOD
