"""What tools that know no .proto file see."""

import threading
from collections.abc import Iterable, Iterator

import grpc
import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from grpc_reflection.v1alpha.reflection_pb2 import ServerReflectionRequest as Request
from grpc_reflection.v1alpha.reflection_pb2 import ServerReflectionResponse as Response

from server_processes import ServerProcess, run_server
from tensor_reshape.client import Client, HealthStatus
from tensor_reshape.v1 import reshape_pb2
from tensor_reshape.wire.methods import SERVICE

VERSIONS = ("v1", "v1alpha")


def ask(channel: grpc.Channel, version: str, requests: Iterable[Request]) -> Iterator[Response]:
    """Opens a stream of the named version; the messages of both are the same."""
    path = f"/grpc.reflection.{version}.ServerReflection/ServerReflectionInfo"
    return iter(channel.stream_stream(path, Request.SerializeToString, Response.FromString)(iter(requests)))


@pytest.mark.parametrize("version", VERSIONS)
def test_reflection_lists_the_services(server: ServerProcess, version: str):
    with grpc.insecure_channel(server.address) as channel:
        (response,) = ask(channel, version, [Request(list_services="")])
    names = {service.name for service in response.list_services_response.service}
    assert {SERVICE, "grpc.health.v1.Health"} <= names


@pytest.mark.parametrize("version", VERSIONS)
def test_reflection_serves_the_contract(server: ServerProcess, version: str):
    with grpc.insecure_channel(server.address) as channel:
        (response,) = ask(channel, version, [Request(file_containing_symbol=SERVICE)])
    served = [FileDescriptorProto.FromString(raw) for raw in response.file_descriptor_response.file_descriptor_proto]
    own = FileDescriptorProto()
    reshape_pb2.DESCRIPTOR.CopyToProto(own)
    assert own in served


def test_reflection_can_be_switched_off():
    with run_server("--no-reflection") as server, grpc.insecure_channel(server.address) as channel:
        for version in VERSIONS:
            with pytest.raises(grpc.RpcError) as raised:
                next(ask(channel, version, [Request(list_services="")]))
            assert raised.value.code() is grpc.StatusCode.UNIMPLEMENTED
        with Client(server.address) as client:
            assert client.check_health() is HealthStatus.SERVING


def test_idle_reflection_streams_take_no_worker_from_the_calls():
    finished = threading.Event()

    def keep_open() -> Iterator[Request]:
        yield Request(list_services="")
        finished.wait()

    with run_server("--threads", "1") as server, grpc.insecure_channel(server.address) as channel:
        responses = ask(channel, "v1", keep_open())
        next(responses)
        try:
            with Client(server.address) as client:
                assert client.infer_shape([6], [6], special_zero=False, timeout=60) == (6,)
        finally:
            finished.set()
