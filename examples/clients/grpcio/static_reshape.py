import sys

import grpc
import numpy as np

from tensor_reshape.v1.reshape_pb2 import StaticReshapeRequest, TargetShape
from tensor_reshape.v1.reshape_pb2_grpc import ReshapeServiceStub
from tensor_reshape.v1.tensor_pb2 import DATA_TYPE_F32, Tensor

address = sys.argv[1] if len(sys.argv) > 1 else "localhost:50051"
options = [("grpc.max_receive_message_length", 32 * 2**20)]

elements = np.array([[1, 2, 3], [4, 5, 6]], "<f4")  # little-endian
data = Tensor(data_type=DATA_TYPE_F32, dims=elements.shape, data=elements.tobytes())
request = StaticReshapeRequest(data=data, shape=TargetShape(items=[3, -1]), special_zero=False)
with grpc.insecure_channel(address, options) as channel:
    output = ReshapeServiceStub(channel).StaticReshape(request, timeout=10).output

rows = np.frombuffer(output.data, "<f4").reshape(output.dims)
print(rows.tolist())  # [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]
