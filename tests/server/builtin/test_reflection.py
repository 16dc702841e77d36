"""The responses to reflection messages, without a socket."""

import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from grpc_reflection.v1alpha.reflection_pb2 import ServerReflectionRequest as Request
from grpc_reflection.v1alpha.reflection_pb2 import ServerReflectionResponse as Response

from tensor_reshape.rules.errors import ReshapeError
from tensor_reshape.server.builtin.health import HEALTH_SERVICE
from tensor_reshape.server.builtin.reflection import Reflection
from tensor_reshape.v1 import reshape_pb2
from tensor_reshape.wire.methods import SERVICE

V1, V1ALPHA = "grpc.reflection.v1", "grpc.reflection.v1alpha"
PRIVATE_FILE = FileDescriptorProto(name="private.proto", package="tests.private", syntax="proto3")
PRIVATE_FILE.message_type.add(name="Question")
PRIVATE_FILE.service.add(name="Oracle").method.add(
    name="Ask", input_type=".tests.private.Question", output_type=".tests.private.Question"
)


@pytest.fixture(scope="module")
def reflection() -> Reflection:
    """Reflection with services of the default pool, and one of a separate pool."""
    pool = DescriptorPool()
    pool.AddSerializedFile(PRIVATE_FILE.SerializeToString())
    contract = reshape_pb2.DESCRIPTOR.services_by_name["ReshapeService"]
    return Reflection((contract, HEALTH_SERVICE, pool.FindServiceByName("tests.private.Oracle")))


def ask(reflection: Reflection, request: Request) -> Response:
    return Response.FromString(reflection.respond(request.SerializeToString()))


def find_files(reflection: Reflection, symbol: str) -> dict[str, FileDescriptorProto]:
    """Returns the files for a requested symbol by their names."""
    answered = ask(reflection, Request(file_containing_symbol=symbol)).file_descriptor_response
    files = map(FileDescriptorProto.FromString, answered.file_descriptor_proto)
    return {file.name: file for file in files}


def test_reflection_lists_the_services(reflection: Reflection):
    response = ask(reflection, Request(list_services=""))
    names = {service.name for service in response.list_services_response.service}
    own = {f"{version}.ServerReflection" for version in (V1, V1ALPHA)}
    assert names == {SERVICE, "grpc.health.v1.Health", "tests.private.Oracle", *own}


def test_reflection_describes_services_outside_the_default_descriptor_pool(reflection: Reflection):
    assert find_files(reflection, "tests.private.Oracle") == {"private.proto": PRIVATE_FILE}


def test_reflection_returns_a_proto_file_with_its_imports(reflection: Reflection):
    assert find_files(reflection, SERVICE).keys() == {
        "tensor_reshape/v1/reshape.proto",
        "tensor_reshape/v1/tensor.proto",
    }


@pytest.mark.parametrize("name", ["ErrorInfo", "BadRequest", "RetryInfo"])
def test_reflection_describes_the_error_details(reflection: Reflection, name: str):
    assert "google/rpc/error_details.proto" in find_files(reflection, f"google.rpc.{name}")


def test_reflection_does_not_return_descriptor_proto(reflection: Reflection):
    request = Request(file_by_filename=FileDescriptorProto.DESCRIPTOR.file.name)
    assert ask(reflection, request).error_response.error_code == 5


def test_reflection_v1_and_v1alpha_return_equal_responses(reflection: Reflection):
    (new,), (old,) = (find_files(reflection, f"{version}.ServerReflection").values() for version in (V1, V1ALPHA))
    assert (new.name, new.package, new.options.deprecated) == ("grpc/reflection/v1/reflection.proto", V1, False)
    assert str(old.message_type).replace(V1ALPHA, V1) == str(new.message_type)
    assert str(old.service).replace(V1ALPHA, V1) == str(new.service)


def test_reflection_of_an_unknown_symbol_is_not_found(reflection: Reflection):
    assert ask(reflection, Request(file_containing_symbol="a.B")).error_response.error_code == 5


def test_malformed_reflection_message_is_rejected(reflection: Reflection):
    with pytest.raises(ReshapeError):
        reflection.respond(b"\xff")
