"""Calls with the messages and the stub of open-inference-grpc."""

from functools import partial

import grpc
import numpy as np
from google.protobuf.json_format import ParseDict
from open_inference.grpc.protocol import ModelInferRequest, ModelInferResponse
from open_inference.grpc.service import GRPCInferenceServiceStub

from calls_of_python import describe_error
from inference_calls import Array, Json, answer_calls, find_dtype, read_calls, write_response

MESSAGE_BYTES = 32 * 2**20  # the default limit for received messages is 4 MiB


def read_elements(response: ModelInferResponse) -> Array:
    (output,) = response.outputs
    dtype = find_dtype(output.datatype)
    if response.raw_output_contents:
        return np.frombuffer(response.raw_output_contents[0], dtype).reshape(output.shape)
    elements = [element for _, field in output.contents.ListFields() for element in field]
    return np.array(elements, dtype).reshape(output.shape)


def ask(stub: GRPCInferenceServiceStub, request: Json, seconds: float) -> Json:
    try:
        response = stub.ModelInfer(ParseDict(request, ModelInferRequest()), timeout=seconds)
    except grpc.RpcError as error:
        return describe_error(error)
    return write_response(response, response.outputs[0], read_elements(response))


def main() -> None:
    address, calls = read_calls()
    with grpc.insecure_channel(address, [("grpc.max_receive_message_length", MESSAGE_BYTES)]) as channel:
        answer_calls(calls, partial(ask, GRPCInferenceServiceStub(channel)))


if __name__ == "__main__":
    main()
