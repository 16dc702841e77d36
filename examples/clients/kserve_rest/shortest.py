import asyncio
import logging
import sys

import httpx
import numpy as np
from kserve import InferenceRESTClient, InferInput, InferRequest
from kserve.inference_client import RESTConfig

logging.disable()  # kserve also logs the errors that it raises


async def main(address: str) -> None:
    data = InferInput("data", [2, 3], "FP32")
    data.set_data_from_numpy(np.array([[1, 2, 3], [4, 5, 6]], np.float32))
    request = InferRequest("reshape", [data], parameters={"shape": "[3,-1]", "special_zero": False})
    client = InferenceRESTClient(RESTConfig(protocol="v2"))
    answer = await client.infer(f"http://{address}", request, model_name="reshape")
    print(answer.outputs[0].as_numpy().tolist())  # [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]

    request.parameters["shape"] = "[4,-1]"
    try:
        await client.infer(f"http://{address}", request, model_name="reshape")
    except httpx.HTTPStatusError as error:
        print(error.response.headers["tensor-reshape-reason"])  # NOT_DIVISIBLE


asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "localhost:8080"))
