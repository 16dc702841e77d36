"""The Open Inference Protocol over a real socket, with plain grpcio stubs."""

from typing import Any

import grpc
import pytest

from inference_requests import SIX, build_question, build_request, send_request
from plain_requests import catch_status, read_trailing
from tensor_reshape.rules.errors import InvalidRequestError, NotFoundError, Reason
from tensor_reshape.server.oip.messages import InferMessage, find_class, find_path
from tensor_reshape.wire.status import decode_rejection


def test_each_operation_is_served_as_an_inference_protocol_model(channel: grpc.Channel):
    for model in ("static_reshape", "dynamic_reshape", "reshape"):
        response = send_request(channel, "ModelInfer", build_request(model, id="seven"))
        assert (response.model_name, response.model_version, response.id) == (model, "1", "seven")
        (output,) = response.outputs
        assert (output.name, output.datatype, list(output.shape)) == ("output", "FP32", [3, 2])
        assert list(response.raw_output_contents) == [SIX]


def test_inference_protocol_returns_a_large_tensor(channel: grpc.Channel):
    payload = bytes(range(256)) * 8192
    request = build_request(shape=[len(payload)], payload=payload, datatype="UINT8", target="[2,-1]")
    assert list(send_request(channel, "ModelInfer", request).raw_output_contents) == [payload]


def test_inference_protocol_statistics_have_equal_counts_for_all_parts(channel: grpc.Channel):
    send_request(channel, "ModelInfer", build_request())
    request = find_class("ModelStatisticsRequest")(name="reshape")
    (stats,) = send_request(channel, "ModelStatistics", request).model_stats
    parts = stats.inference_stats
    counts = {part.count for part in (parts.queue, parts.compute_input, parts.compute_infer, parts.compute_output)}
    assert counts == {parts.success.count}
    assert parts.success.count > 0


@pytest.mark.parametrize(
    ("request_", "code", "kind", "reason"),
    [
        (build_request("nothing"), grpc.StatusCode.NOT_FOUND, NotFoundError, Reason.MODEL_UNKNOWN),
        (build_request(target="[4]"), grpc.StatusCode.INVALID_ARGUMENT, InvalidRequestError, Reason.VOLUME_MISMATCH),
    ],
    ids=["unknown model", "broken rule"],
)
def test_inference_protocol_errors_have_the_reason(
    channel: grpc.Channel, request_: InferMessage, code: grpc.StatusCode, kind: type[Exception], reason: Reason
):
    status = catch_status(lambda: send_request(channel, "ModelInfer", request_))
    rejection = decode_rejection(status.code().name, read_trailing(status).items())
    assert (status.code(), type(rejection), getattr(rejection, "reason", None)) == (code, kind, reason)


NUMBERS = {"name": "data", "datatype": "FP32", "shape": [2, 3], "contents": {"fp32_contents": [1.0] * 7}}
DIMS = {"name": "data_shape", "datatype": "INT64", "shape": [1, 2]}
WRONG_INPUTS: dict[str, InferMessage] = {
    "inputs[0] has 7 elements; FP32 of the shape [2, 3] has 6": build_request(inputs=[NUMBERS], raw_input_contents=[]),
    "inputs[0] has 27 bytes; FP32 of the shape [2, 3] has 24": build_request(payload=bytes(27)),
    "inputs[0].shape[0] is -1; a dimension must be from 0 to 2^63 - 1": build_request(shape=(-1, 3)),
    "inputs[0].shape has 13 items; static_reshape takes up to 12": build_request(
        "static_reshape", [1] * 13, bytes(4), target="[1]"
    ),
    "inputs[0].shape is [1, 2]; a list of dimensions must have rank 1": build_request(
        "infer_shape", inputs=[DIMS], payload=bytes(16)
    ),
    "data_shape[1] is -2; a dimension must be from 0 to 2^63 - 1": build_question([2, -2], "[-1]"),
}


@pytest.mark.parametrize("text", WRONG_INPUTS)
def test_inference_protocol_errors_use_the_names_of_the_protocol(channel: grpc.Channel, text: str):
    assert catch_status(lambda: send_request(channel, "ModelInfer", WRONG_INPUTS[text])).details() == text


def test_inference_protocol_stream_keeps_order_and_isolates_errors(channel: grpc.Channel):
    requests = [build_request(id="1"), build_request(id="2", target="[4]"), build_request(id="3")]
    stub = channel.stream_stream(
        find_path("ModelStreamInfer"),
        request_serializer=find_class("ModelInferRequest").SerializeToString,
        response_deserializer=find_class("ModelStreamInferResponse").FromString,
    )
    responses: Any = list(stub(iter(requests), timeout=20))
    assert [response.infer_response.id for response in responses] == ["1", "2", "3"]
    assert [bool(response.error_message) for response in responses] == [False, True, False]
    assert responses[1].infer_response.parameters["reason"].string_param == "VOLUME_MISMATCH"
    assert list(responses[2].infer_response.raw_output_contents) == [SIX]
