"""Calls with kserve's InferenceRESTClient."""

import asyncio
import logging

import httpx
from kserve import InferenceRESTClient, InferRequest
from kserve.inference_client import RESTConfig
from kserve.protocol.infer_type import InferInput, RequestedOutput

from calls_of_python import answer_calls
from inference_calls import Json, Tensor, read_calls, read_parameters, read_tensors, write_response
from rest_calls import TIMEOUT, describe_error


def make_input(tensor: Tensor) -> InferInput:
    made = InferInput(tensor.name, list(tensor.array.shape), tensor.datatype)
    made.set_data_from_numpy(tensor.array, binary_data=not tensor.is_typed)
    return made


async def ask(client: InferenceRESTClient, address: str, request: Json, seconds: float) -> Json:
    made = InferRequest(
        request["model_name"],
        [make_input(tensor) for tensor in read_tensors(request)],
        request_id=request.get("id", ""),
        parameters={**read_parameters(request["parameters"]), "binary_data_output": True},
        request_outputs=[RequestedOutput(output["name"]) for output in request.get("outputs", [])],
    )
    try:
        response = await client.infer(f"http://{address}", made, model_name=made.model_name, timeout=seconds)
    except httpx.TimeoutException:
        return TIMEOUT
    except httpx.HTTPStatusError as error:
        return describe_error(error.response.status_code, error.response.json()["error"])
    response.id = request.get("id", "")  # the client makes an id for a request without one
    response.model_version = "1"  # the client drops the version, so this table cannot compare it
    (output,) = response.outputs
    return write_response(response, output, output.as_numpy())


async def main() -> None:
    logging.disable()  # kserve also logs the errors that it raises
    address, calls = read_calls()
    client = InferenceRESTClient(RESTConfig(protocol="v2", retries=0))
    await answer_calls(calls, lambda call: ask(client, address, call["requests"][0], call["seconds"]))


if __name__ == "__main__":
    asyncio.run(main())
