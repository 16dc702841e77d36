"""The messages of the protocol are nobody else's business: the default pool knows nothing of them."""

import gc
import weakref
from collections.abc import Iterator

import pytest
from google.protobuf import descriptor_pb2, descriptor_pool
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from tensor_reshape.server.oip.messages import SERVICE, find_class, find_path


def test_the_default_pool_has_none_of_the_names():
    with pytest.raises(KeyError):
        descriptor_pool.Default().FindFileContainingSymbol(SERVICE.full_name)


def test_another_file_of_the_same_names_may_be_registered():
    file = descriptor_pb2.FileDescriptorProto()
    SERVICE.file.CopyToProto(file)
    file.name = "grpc_service.proto"
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(file.SerializeToString())
    assert pool.FindServiceByName(SERVICE.full_name) is not None


def test_a_method_has_its_path_and_its_classes():
    assert find_path("ModelInfer") == "/inference.GRPCInferenceService/ModelInfer"
    for method in SERVICE.methods:
        assert find_class(method.input_type.name).DESCRIPTOR is method.input_type


def test_no_class_is_ever_collected():
    classes = [weakref.ref(type(message)) for message in build_all()]
    gc.collect()
    assert classes
    assert all(found() is not None for found in classes)


def build_all() -> Iterator[Message]:
    """Yields a message of each class that a message of a method can have in it."""
    waiting = [kind for method in SERVICE.methods for kind in (method.input_type, method.output_type)]
    seen = set()
    while waiting:
        kind = waiting.pop()
        if kind.full_name not in seen:
            seen.add(kind.full_name)
            waiting += [field.message_type for field in kind.fields if field.message_type is not None]
            yield GetMessageClass(kind)()


@pytest.mark.parametrize(
    ("message", "numbers"),
    [
        ("ModelInferRequest", [1, 2, 3, 4, 5, 6, 7]),
        ("ModelInferRequest.InferInputTensor", [1, 2, 3, 4, 5]),
        ("ModelInferResponse", [1, 2, 3, 4, 5, 6]),
        ("InferParameter", [1, 2, 3, 4, 5]),
        ("InferTensorContents", [1, 2, 3, 4, 5, 6, 7, 8]),
        ("ModelMetadataResponse", [1, 2, 3, 4, 5, 6]),
        ("ModelConfig", [1, 2, 4, 5, 6, 14, 17]),
        ("ModelStatistics", [1, 2, 3, 4, 5, 6]),
        ("SystemSharedMemoryRegisterRequest", [1, 2, 3, 4]),
    ],
)
def test_the_numbers_are_those_of_the_protocol(message: str, numbers: list[int]):
    assert [field.number for field in find_class(message).DESCRIPTOR.fields] == numbers
