import asyncio
import sys

import numpy as np

# Without this import, grpclib shows each detail of an error as "Unknown".
from google.rpc import error_details_pb2
from grpclib.client import Channel
from grpclib.exceptions import GRPCError

from tensor_reshape.v1.reshape_grpc import ReshapeServiceStub
from tensor_reshape.v1.reshape_pb2 import StaticReshapeRequest, TargetShape
from tensor_reshape.v1.tensor_pb2 import DATA_TYPE_F32, Tensor


async def main(address: str) -> None:
    host, port = address.rsplit(":", 1)
    elements = np.arange(1, 7, dtype="<f4")
    data = Tensor(data_type=DATA_TYPE_F32, dims=[2, 3], data=elements.tobytes())
    async with Channel(host, int(port)) as channel:
        client = ReshapeServiceStub(channel)
        request = StaticReshapeRequest(shape=TargetShape(items=[3, -1]), special_zero=False, data=data)
        output = (await client.StaticReshape(request, timeout=10)).output
        print(list(output.dims))  # [3, 2]
        print(np.frombuffer(output.data, "<f4"))  # [1. 2. 3. 4. 5. 6.]
        try:
            request.shape.items[:] = [4, -1]
            await client.StaticReshape(request, timeout=10)
        except GRPCError as error:
            info = next(detail for detail in error.details if isinstance(detail, error_details_pb2.ErrorInfo))
            print(error.status.name, info.reason, info.metadata["divisor"])  # INVALID_ARGUMENT NOT_DIVISIBLE 4


asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "localhost:50051"))
