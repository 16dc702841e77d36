"""The paths and message classes of the Open Inference Protocol."""

from tensor_reshape.server.oip.messages import SERVICE, find_class, find_path


def test_inference_methods_have_their_path_and_message_classes():
    assert find_path("ModelInfer") == "/inference.GRPCInferenceService/ModelInfer"
    for method in SERVICE.methods:
        assert find_class(method.input_type.name).DESCRIPTOR is method.input_type
