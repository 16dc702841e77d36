"""The Open Inference Protocol over a real socket, with stubs of grpcio's own."""

from typing import Any

import grpc
import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from grpc_reflection.v1alpha.reflection_pb2 import ServerReflectionRequest
from grpc_reflection.v1alpha.reflection_pb2_grpc import ServerReflectionStub

from inference_requests import SIX, build_request, send_request
from remote_refusals import catch_status, read_trailing
from tensor_reshape.rules.errors import InvalidRequestError, NotFoundError, Reason
from tensor_reshape.server.oip.messages import SERVICE, InferMessage, find_class, find_path
from tensor_reshape.wire.status import decode_refusal

SECONDS = 20.0


@pytest.mark.parametrize("model", ["static_reshape", "dynamic_reshape", "reshape"])
def test_a_model_reshapes(channel: grpc.Channel, model: str):
    response = send_request(channel, "ModelInfer", build_request(model, id="seven"))
    assert (response.model_name, response.model_version, response.id) == (model, "1", "seven")
    assert [(tensor.name, tensor.datatype, list(tensor.shape)) for tensor in response.outputs] == [
        ("output", "FP32", [3, 2])
    ]
    assert list(response.raw_output_contents) == [SIX]


def test_a_large_tensor_comes_back(channel: grpc.Channel):
    payload = bytes(range(256)) * 8192
    response = send_request(
        channel, "ModelInfer", build_request(shape=[len(payload)], payload=payload, datatype="UINT8", target="[2,-1]")
    )
    assert list(response.raw_output_contents) == [payload]


@pytest.mark.parametrize(
    ("request_", "code", "kind", "reason"),
    [
        (build_request("nothing"), grpc.StatusCode.NOT_FOUND, NotFoundError, Reason.MODEL_UNKNOWN),
        (build_request(target="[4]"), grpc.StatusCode.INVALID_ARGUMENT, InvalidRequestError, Reason.VOLUME_MISMATCH),
    ],
    ids=["unknown model", "broken rule"],
)
def test_a_refusal_has_our_reason(
    channel: grpc.Channel, request_: InferMessage, code: grpc.StatusCode, kind: type[Exception], reason: Reason
):
    status = catch_status(lambda: send_request(channel, "ModelInfer", request_))
    refusal = decode_refusal(status.code(), read_trailing(status).items())
    assert status.code() is code
    assert isinstance(refusal, kind)
    assert getattr(refusal, "reason", None) is reason


def test_reflection_has_the_whole_service(channel: grpc.Channel):
    stub = ServerReflectionStub(channel)
    request = ServerReflectionRequest(file_containing_symbol=SERVICE.full_name)
    (response,) = stub.ServerReflectionInfo(iter([request]), timeout=SECONDS)
    (raw,) = response.file_descriptor_response.file_descriptor_proto
    (service,) = FileDescriptorProto.FromString(raw).service
    assert [method.name for method in service.method] == [method.name for method in SERVICE.methods]


@pytest.mark.parametrize("name", ["ServerLive", "ServerReady"])
def test_the_server_is_live_and_ready(channel: grpc.Channel, name: str):
    (field,) = send_request(channel, name, find_class(f"{name}Request")()).ListFields()
    assert field[1] is True


def test_a_stream_answers_each_message_in_order_and_refuses_one_alone(channel: grpc.Channel):
    requests = [build_request(id="1"), build_request(id="2", target="[4]"), build_request(id="3")]
    stub = channel.stream_stream(
        find_path("ModelStreamInfer"),
        request_serializer=find_class("ModelInferRequest").SerializeToString,
        response_deserializer=find_class("ModelStreamInferResponse").FromString,
    )
    responses: Any = list(stub(iter(requests), timeout=SECONDS))
    assert [response.infer_response.id for response in responses] == ["1", "2", "3"]
    assert [bool(response.error_message) for response in responses] == [False, True, False]
    assert responses[1].infer_response.parameters["reason"].string_param == "VOLUME_MISMATCH"
    assert list(responses[2].infer_response.raw_output_contents) == [SIX]
