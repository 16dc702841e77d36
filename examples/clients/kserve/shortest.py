import asyncio
import logging
import sys

import grpc
import numpy as np
from google.rpc import error_details_pb2
from grpc_status import rpc_status
from kserve import InferenceGRPCClient, InferInput, InferRequest

logging.disable()  # kserve also logs the errors that it raises


async def main(address: str) -> None:
    data = InferInput("data", [2, 3], "FP32")
    data.set_data_from_numpy(np.array([[1, 2, 3], [4, 5, 6]], np.float32))
    request = InferRequest("reshape", [data], parameters={"shape": "[3,-1]", "special_zero": False})
    async with InferenceGRPCClient(address) as client:
        answer = await client.infer(request, timeout=10)
        print(answer.outputs[0].as_numpy().tolist())  # [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]

        request.parameters["shape"] = "[4,-1]"
        try:
            await client.infer(request, timeout=10)
        except grpc.RpcError as error:
            info = error_details_pb2.ErrorInfo()
            for detail in rpc_status.from_call(error).details:
                if detail.Unpack(info):
                    print(error.code().name, info.reason, info.metadata["divisor"])  # INVALID_ARGUMENT NOT_DIVISIBLE 4


asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "localhost:50051"))
