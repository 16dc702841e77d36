"""The messages of the protocol are nobody else's business: the default pool knows nothing of them."""

import pytest
from google.protobuf import descriptor_pb2, descriptor_pool

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
