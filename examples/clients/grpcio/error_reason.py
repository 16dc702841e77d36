import sys

import grpc
from google.rpc.error_details_pb2 import BadRequest, ErrorInfo
from grpc_status import rpc_status

from tensor_reshape.v1.reshape_pb2 import OPERATION_STATIC_RESHAPE, InferShapeRequest, TargetShape
from tensor_reshape.v1.reshape_pb2_grpc import ReshapeServiceStub
from tensor_reshape.v1.tensor_pb2 import DATA_TYPE_F32, Shape, TensorSpec

address = sys.argv[1] if len(sys.argv) > 1 else "localhost:50051"

# 24 elements cannot fill rows of 5.
request = InferShapeRequest(
    operation=OPERATION_STATIC_RESHAPE,
    data=TensorSpec(data_type=DATA_TYPE_F32, shape=Shape(dims=[2, 3, 4])),
    shape=TargetShape(items=[5, -1]),
    special_zero=False,
    explain=True,  # the error then has the values that would work
)
with grpc.insecure_channel(address) as channel:
    try:
        ReshapeServiceStub(channel).InferShape(request, timeout=10)
    except grpc.RpcError as error:
        print(error.code().name)  # INVALID_ARGUMENT
        status = rpc_status.from_call(error)  # None if the error has no details, for example because no server runs
        info, wrong = ErrorInfo(), BadRequest()
        for detail in status.details if status else ():
            if detail.Unpack(info):
                print(info.reason)  # NOT_DIVISIBLE
                print(info.metadata["accepted"])  # other items whose product divides 24: the nearest are 4 and 6
            elif detail.Unpack(wrong):
                print(wrong.field_violations[0].field)  # shape[1]
