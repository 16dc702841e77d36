"""Reflection describes the services for tools that do not have the .proto files."""

from collections.abc import Iterable, Iterator

import grpc
import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from grpc_reflection.v1alpha.reflection_pb2 import ServerReflectionRequest as Request
from grpc_reflection.v1alpha.reflection_pb2 import ServerReflectionResponse as Response

from tensor_reshape.server.oip.messages import SERVICE as INFERENCE_SERVICE
from tensor_reshape.v1 import reshape_pb2
from tensor_reshape.wire.methods import SERVICE

VERSIONS = ("v1", "v1alpha")


def ask(channel: grpc.Channel, version: str, requests: Iterable[Request]) -> Iterator[Response]:
    """Opens a stream of a version of reflection. Both versions have the same messages."""
    path = f"/grpc.reflection.{version}.ServerReflection/ServerReflectionInfo"
    return iter(channel.stream_stream(path, Request.SerializeToString, Response.FromString)(iter(requests)))


@pytest.mark.parametrize("version", VERSIONS)
def test_reflection_describes_the_services(channel: grpc.Channel, version: str):
    symbols = [SERVICE, INFERENCE_SERVICE.full_name]
    requests = [Request(list_services=""), *(Request(file_containing_symbol=symbol) for symbol in symbols)]
    listed, *described = ask(channel, version, requests)
    names = {service.name for service in listed.list_services_response.service}
    assert {*symbols, "grpc.health.v1.Health"} <= names
    own, inference = (
        [FileDescriptorProto.FromString(raw) for raw in one.file_descriptor_response.file_descriptor_proto]
        for one in described
    )
    contract = FileDescriptorProto()
    reshape_pb2.DESCRIPTOR.CopyToProto(contract)
    assert contract in own
    (service,) = inference[0].service
    assert [method.name for method in service.method] == [method.name for method in INFERENCE_SERVICE.methods]
