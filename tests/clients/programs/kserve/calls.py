"""Calls with kserve's InferenceGRPCClient."""

import asyncio
import logging

import grpc
from kserve import InferenceGRPCClient, InferInput, InferRequest
from kserve.protocol.infer_type import RequestedOutput

from calls_of_python import answer_calls, describe_error
from inference_calls import Json, Tensor, read_calls, read_parameters, read_tensors, write_response


def make_input(tensor: Tensor) -> InferInput:
    made = InferInput(tensor.name, list(tensor.array.shape), tensor.datatype)
    made.set_data_from_numpy(tensor.array, binary_data=not tensor.is_typed)
    return made


async def ask(client: InferenceGRPCClient, request: Json, seconds: float) -> Json:
    made = InferRequest(
        request["model_name"],
        [make_input(tensor) for tensor in read_tensors(request)],
        request_id=request.get("id", ""),
        parameters=read_parameters(request["parameters"]),
        request_outputs=[RequestedOutput(output["name"]) for output in request.get("outputs", [])],
        model_version=request.get("model_version"),
    )
    try:
        response = await client.infer(made, timeout=seconds)
    except grpc.RpcError as error:
        return describe_error(error)
    (output,) = response.outputs
    return write_response(response, output, output.as_numpy())


async def main() -> None:
    logging.disable()  # kserve also logs the errors that it raises
    address, calls = read_calls()
    async with InferenceGRPCClient(address, retries=0) as client:
        await answer_calls(calls, lambda call: ask(client, call["requests"][0], call["seconds"]))


if __name__ == "__main__":
    asyncio.run(main())
