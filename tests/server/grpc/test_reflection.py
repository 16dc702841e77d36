"""The responses to reflection messages, without a socket."""

import re

import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from grpc_reflection.v1alpha import reflection_pb2
from grpc_reflection.v1alpha.reflection_pb2 import ExtensionRequest
from grpc_reflection.v1alpha.reflection_pb2 import ServerReflectionRequest as Request
from grpc_reflection.v1alpha.reflection_pb2 import ServerReflectionResponse as Response

from tensor_reshape.rules.errors import ReshapeError
from tensor_reshape.server.grpc.health import HEALTH_SERVICE
from tensor_reshape.server.grpc.reflection import Reflection
from tensor_reshape.v1 import reshape_pb2
from tensor_reshape.wire.methods import SERVICE

V1, V1ALPHA = "grpc.reflection.v1", "grpc.reflection.v1alpha"
ORACLE = "tests.private.Oracle"
PRIVATE_FILE = FileDescriptorProto(name="private.proto", package="tests.private")
PRIVATE_FILE.message_type.add(name="Question").extension_range.add(start=100, end=200)
for number in (101, 100):
    PRIVATE_FILE.extension.add(
        name=f"extension_{number}",
        number=number,
        extendee=".tests.private.Question",
        label="LABEL_OPTIONAL",
        type="TYPE_BOOL",
    )
PRIVATE_FILE.service.add(name="Oracle").method.add(
    name="Ask", input_type=".tests.private.Question", output_type=".tests.private.Question"
)


@pytest.fixture(scope="module")
def reflection() -> Reflection:
    """Reflection with services of the default pool, and one of a separate pool."""
    pool = DescriptorPool()
    pool.AddSerializedFile(PRIVATE_FILE.SerializeToString())
    contract = reshape_pb2.DESCRIPTOR.services_by_name["ReshapeService"]
    return Reflection((contract, HEALTH_SERVICE, pool.FindServiceByName(ORACLE)))


def ask(reflection: Reflection, request: Request) -> Response:
    return Response.FromString(reflection.respond(request.SerializeToString()))


def read_files(response: Response) -> dict[str, FileDescriptorProto]:
    """Returns the files of a response by their names."""
    files = map(FileDescriptorProto.FromString, response.file_descriptor_response.file_descriptor_proto)
    return {file.name: file for file in files}


def find_files(reflection: Reflection, symbol: str) -> dict[str, FileDescriptorProto]:
    return read_files(ask(reflection, Request(file_containing_symbol=symbol)))


def test_reflection_lists_the_services(reflection: Reflection):
    response = ask(reflection, Request(list_services=""))
    names = {service.name for service in response.list_services_response.service}
    own = {f"{version}.ServerReflection" for version in (V1, V1ALPHA)}
    assert names == {SERVICE, "grpc.health.v1.Health", ORACLE, *own}


def test_reflection_describes_services_outside_the_default_descriptor_pool(reflection: Reflection):
    assert find_files(reflection, ORACLE) == {"private.proto": PRIVATE_FILE}


def test_reflection_returns_a_proto_file_before_its_imports(reflection: Reflection):
    assert [*find_files(reflection, SERVICE)] == ["tensor_reshape/v1/reshape.proto", "tensor_reshape/v1/tensor.proto"]


def test_reflection_response_contains_the_request(reflection: Reflection):
    for request in (Request(host="a", list_services="b"), Request(file_by_filename="private.proto"), Request()):
        assert ask(reflection, request).original_request == request


def test_reflection_finds_a_proto_file_by_its_name(reflection: Reflection):
    assert read_files(ask(reflection, Request(file_by_filename="private.proto"))) == {"private.proto": PRIVATE_FILE}


def test_reflection_lists_the_extensions_of_a_message(reflection: Reflection):
    response = ask(reflection, Request(all_extension_numbers_of_type="tests.private.Question"))
    numbers = response.all_extension_numbers_response
    assert (numbers.base_type_name, numbers.extension_number) == ("tests.private.Question", [100, 101])


def test_reflection_finds_the_proto_file_of_an_extension(reflection: Reflection):
    wanted = ExtensionRequest(containing_type="tests.private.Question", extension_number=101)
    response = ask(reflection, Request(file_containing_extension=wanted))
    assert read_files(response) == {"private.proto": PRIVATE_FILE}


@pytest.mark.parametrize("name", ["ErrorInfo", "BadRequest", "RetryInfo"])
def test_reflection_describes_the_error_details(reflection: Reflection, name: str):
    assert "google/rpc/error_details.proto" in find_files(reflection, f"google.rpc.{name}")


def test_reflection_definition_equals_that_of_grpcio_reflection(reflection: Reflection):
    (own,), published = find_files(reflection, f"{V1ALPHA}.ServerReflection").values(), FileDescriptorProto()
    reflection_pb2.DESCRIPTOR.CopyToProto(published)
    assert (own.name, own.package) == ("grpc/reflection/v1alpha/reflection.proto", published.package)
    # Generated modules have no JSON names.
    messages = [re.sub(' *json_name: ".*"\n', "", str(message)) for message in own.message_type]
    assert messages == [*map(str, published.message_type)]
    assert own.service == published.service


def test_reflection_v1_and_v1alpha_return_equal_responses(reflection: Reflection):
    (new,), (old,) = (find_files(reflection, f"{version}.ServerReflection").values() for version in (V1, V1ALPHA))
    assert (new.name, new.package, new.options.deprecated) == ("grpc/reflection/v1/reflection.proto", V1, False)
    assert old.options.deprecated
    assert str(old.message_type).replace(V1ALPHA, V1) == str(new.message_type)
    assert str(old.service).replace(V1ALPHA, V1) == str(new.service)


UNKNOWN = [
    Request(file_containing_symbol="a.B"),
    Request(file_containing_symbol="a\0\N{GREEK SMALL LETTER ALPHA}"),
    Request(file_by_filename=FileDescriptorProto.DESCRIPTOR.file.name),  # another file of the process
    Request(file_containing_extension=ExtensionRequest(containing_type="a.B", extension_number=100)),
    Request(file_containing_extension=ExtensionRequest(containing_type="tests.private.Question", extension_number=-1)),
    Request(all_extension_numbers_of_type="a.B"),
]


@pytest.mark.parametrize("request_", UNKNOWN, ids=str)
def test_reflection_of_an_unknown_name_is_not_found(reflection: Reflection, request_: Request):
    response = ask(reflection, request_)
    assert (response.error_response.error_code, response.error_response.error_message) == (5, "not found")


def test_reflection_message_without_a_request_is_an_invalid_argument(reflection: Reflection):
    assert ask(reflection, Request(host="a")).error_response.error_code == 3


def test_malformed_reflection_message_is_rejected(reflection: Reflection):
    with pytest.raises(ReshapeError):
        reflection.respond(b"\xff")


def test_reflection_message_is_processed_at_once_and_is_no_tensor(reflection: Reflection):
    for method in reflection.build_methods():
        session = method.open(lambda _: None)
        raw = Request(list_services="").SerializeToString()
        assert session.estimate(raw) == (False, len(raw))
        assert [*session.receive(raw)] == [reflection.respond(raw)]
        assert session.is_between_tensors
        session.finish()
