"""What a reflection message is answered with: without a socket."""

import pytest
from grpc_reflection.v1alpha import reflection_pb2

from tensor_reshape.rules.errors import ReshapeError
from tensor_reshape.server.auxiliary.reflection import Reflection
from tensor_reshape.wire.methods import SERVICE


def ask(request: reflection_pb2.ServerReflectionRequest) -> reflection_pb2.ServerReflectionResponse:
    return reflection_pb2.ServerReflectionResponse.FromString(Reflection().respond(request.SerializeToString()))


def test_the_services_are_listed():
    response = ask(reflection_pb2.ServerReflectionRequest(list_services=""))
    names = {service.name for service in response.list_services_response.service}
    assert names == {SERVICE, "grpc.health.v1.Health", "grpc.reflection.v1alpha.ServerReflection"}


def test_a_symbol_that_is_not_here_is_not_found():
    assert ask(reflection_pb2.ServerReflectionRequest(file_containing_symbol="a.B")).error_response.error_code == 5


def test_garbage_is_refused():
    with pytest.raises(ReshapeError):
        Reflection().respond(b"\xff")
