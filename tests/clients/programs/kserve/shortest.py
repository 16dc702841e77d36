import asyncio
import sys

import numpy as np
from kserve import InferenceGRPCClient, InferInput, InferRequest


async def main(address: str) -> None:
    elements = np.arange(1, 7, dtype=np.float32).reshape(2, 3)
    data = InferInput("data", list(elements.shape), "FP32")
    data.set_data_from_numpy(elements, binary_data=True)
    request = InferRequest("static_reshape", [data], parameters={"shape": "[3,-1]", "special_zero": False})
    async with InferenceGRPCClient(address) as client:
        answer = await client.infer(request, timeout=10)
    print(answer.outputs[0].as_numpy().tolist())  # [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]


asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "localhost:50051"))
