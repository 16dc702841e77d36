import sys

import grpc

from tensor_reshape.v1.reshape_pb2 import OPERATION_STATIC_RESHAPE, InferShapeRequest, TargetShape
from tensor_reshape.v1.reshape_pb2_grpc import ReshapeServiceStub
from tensor_reshape.v1.tensor_pb2 import DATA_TYPE_F32, PartialDim, Shape, Symbol, TensorSpec

address = sys.argv[1] if len(sys.argv) > 1 else "localhost:50051"

# The input shape is [batch, 3, 4]. In `dims`, a dimension with a name is -1, and an entry of `partial` has the name.
batch = PartialDim(index=0, symbol=Symbol(name="batch"))
data = TensorSpec(data_type=DATA_TYPE_F32, shape=Shape(dims=[-1, 3, 4], partial=[batch]))
request = InferShapeRequest(
    operation=OPERATION_STATIC_RESHAPE,
    data=data,
    shape=TargetShape(items=[0, -1]),  # the 0 copies batch, and the -1 is computed
    special_zero=True,
)
with grpc.insecure_channel(address) as channel:
    output = ReshapeServiceStub(channel).InferShape(request, timeout=10).shape

dims: list[int | str] = list(output.dims)
for entry in output.partial:  # in other queries, an entry may also be a product or a range
    dims[entry.index] = entry.symbol.name
print(dims)  # ['batch', 12]
