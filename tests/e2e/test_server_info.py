"""What a server reports about itself: its limits and features, and its services by reflection."""

from collections.abc import Iterable, Iterator

import grpc
import numpy as np
import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from grpc_reflection.v1alpha.reflection_pb2 import ServerReflectionRequest as Request
from grpc_reflection.v1alpha.reflection_pb2 import ServerReflectionResponse as Response

from both_clients import CLIENTS, open_client
from server_processes import ServerProcess
from tensor_reshape.client import Feature, LimitError, Reason
from tensor_reshape.rules.limits import MAX_TENSOR_BYTES
from tensor_reshape.server.oip.messages import SERVICE as INFERENCE_SERVICE
from tensor_reshape.v1 import reshape_pb2
from tensor_reshape.wire.methods import SERVICE

LARGE = np.zeros(2048, np.float32)  # twice the largest message of the small server


@pytest.mark.parametrize("kind", CLIENTS)
def test_server_info_returns_limits_to_sync_and_async_clients(kind: str, small_server: ServerProcess):
    with open_client(kind, small_server.address) as client:
        info = client.server_info()
    assert (info.limits.max_message_bytes, info.limits.max_tensor_bytes) == (4096, MAX_TENSOR_BYTES)
    assert info.operations.keys() == {"static_reshape", "dynamic_reshape", "reshape"}
    assert {Feature.OPEN_INFERENCE, Feature.REFLECTION} <= info.features


@pytest.mark.parametrize("kind", CLIENTS)
def test_message_size_error_suggests_a_stream_or_smaller_chunks(kind: str, small_server: ServerProcess):
    with open_client(kind, small_server.address, chunk_bytes=1024) as client:
        with pytest.raises(LimitError, match='its receiver allows 4 KiB: use transfer="stream"') as caught:
            client.static_reshape(LARGE, [-1])
        assert caught.value.reason is Reason.MESSAGE_TOO_LARGE
        np.testing.assert_array_equal(client.static_reshape(LARGE, [-1], transfer="stream"), LARGE)
    with open_client(kind, small_server.address, chunk_bytes=4096) as client:  # too large with its header
        with pytest.raises(LimitError, match="its receiver allows 4096 bytes: use a client with smaller") as caught:
            client.static_reshape(LARGE, [-1], transfer="stream")
        assert caught.value.reason is Reason.MESSAGE_TOO_LARGE


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
