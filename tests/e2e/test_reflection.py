"""What tools that know no .proto file see."""

import threading
from collections.abc import Iterator

import grpc
import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from server_processes import ServerProcess, run_server
from tensor_reshape.client import Client, HealthStatus
from tensor_reshape.v1 import reshape_pb2
from tensor_reshape.wire.methods import SERVICE


def test_reflection_lists_the_services(server: ServerProcess):
    with grpc.insecure_channel(server.address) as channel:
        stub = reflection_pb2_grpc.ServerReflectionStub(channel)
        (response,) = stub.ServerReflectionInfo(iter([reflection_pb2.ServerReflectionRequest(list_services="")]))
    names = {service.name for service in response.list_services_response.service}
    assert {SERVICE, "grpc.health.v1.Health"} <= names


def test_reflection_serves_the_contract(server: ServerProcess):
    with grpc.insecure_channel(server.address) as channel:
        stub = reflection_pb2_grpc.ServerReflectionStub(channel)
        request = reflection_pb2.ServerReflectionRequest(file_containing_symbol=SERVICE)
        (response,) = stub.ServerReflectionInfo(iter([request]))
    served = [FileDescriptorProto.FromString(raw) for raw in response.file_descriptor_response.file_descriptor_proto]
    own = FileDescriptorProto()
    reshape_pb2.DESCRIPTOR.CopyToProto(own)
    assert own in served


def test_reflection_can_be_switched_off():
    with run_server("--no-reflection") as server, grpc.insecure_channel(server.address) as channel:
        stub = reflection_pb2_grpc.ServerReflectionStub(channel)
        responses = stub.ServerReflectionInfo(iter([reflection_pb2.ServerReflectionRequest(list_services="")]))
        with pytest.raises(grpc.RpcError) as raised:
            next(responses)
        assert raised.value.code() is grpc.StatusCode.UNIMPLEMENTED
        with Client(server.address) as client:
            assert client.check_health() is HealthStatus.SERVING


def test_idle_reflection_streams_take_no_worker_from_the_calls():
    finished = threading.Event()

    def keep_open() -> Iterator[reflection_pb2.ServerReflectionRequest]:
        yield reflection_pb2.ServerReflectionRequest(list_services="")
        finished.wait()

    with run_server("--threads", "1") as server, grpc.insecure_channel(server.address) as channel:
        responses = reflection_pb2_grpc.ServerReflectionStub(channel).ServerReflectionInfo(keep_open())
        next(responses)
        try:
            with Client(server.address) as client:
                assert client.infer_shape([6], [6], special_zero=False, timeout=60) == (6,)
        finally:
            finished.set()
            responses.cancel()
