import base64
import sys

import grpc
import numpy as np
from google.rpc import error_details_pb2
from grpc_requests import Client
from grpc_status import rpc_status

address = sys.argv[1] if len(sys.argv) > 1 else "localhost:50051"
client = Client(address, channel_options=[("grpc.max_receive_message_length", 32 * 2**20)])
service = "tensor_reshape.v1.ReshapeService"

elements = np.arange(1, 7, dtype="<f4")  # bytes are sent as base64, and 64-bit integers as text
data = {"data_type": "DATA_TYPE_F32", "dims": [2, 3], "data": base64.b64encode(elements.tobytes()).decode()}
request = {"shape": {"items": [3, -1]}, "special_zero": False, "data": data}
output = client.request(service, "StaticReshape", request, timeout=10)["output"]
print([int(dim) for dim in output["dims"]])  # [3, 2]
print(np.frombuffer(base64.b64decode(output["data"]), "<f4"))  # [1. 2. 3. 4. 5. 6.]

try:
    client.request(service, "StaticReshape", {**request, "shape": {"items": [4, -1]}}, timeout=10)
except grpc.RpcError as error:
    info = error_details_pb2.ErrorInfo()
    for detail in rpc_status.from_call(error).details:
        if detail.Unpack(info):
            print(error.code().name, info.reason, info.metadata["divisor"])  # INVALID_ARGUMENT NOT_DIVISIBLE 4
