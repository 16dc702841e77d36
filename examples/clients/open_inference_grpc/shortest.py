import sys

import grpc
import numpy as np
from google.rpc import error_details_pb2
from grpc_status import rpc_status
from open_inference.grpc.protocol import ModelInferRequest
from open_inference.grpc.service import GRPCInferenceServiceStub

elements = np.array([[1, 2, 3], [4, 5, 6]], np.float32)
request = ModelInferRequest(model_name="reshape", raw_input_contents=[elements.tobytes()])
request.inputs.add(name="data", datatype="FP32", shape=elements.shape)
request.parameters["special_zero"].bool_param = False
request.parameters["shape"].string_param = "[3,-1]"

address = sys.argv[1] if len(sys.argv) > 1 else "localhost:50051"
options = [("grpc.max_receive_message_length", 32 * 2**20)]
with grpc.insecure_channel(address, options) as channel:
    stub = GRPCInferenceServiceStub(channel)
    answer = stub.ModelInfer(request, timeout=10)
    (output,) = answer.outputs
    array = np.frombuffer(answer.raw_output_contents[0], np.float32).reshape(output.shape)
    print(array.tolist())  # [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]

    request.parameters["shape"].string_param = "[4,-1]"
    try:
        stub.ModelInfer(request, timeout=10)
    except grpc.RpcError as error:
        info = error_details_pb2.ErrorInfo()
        for detail in rpc_status.from_call(error).details:
            if detail.Unpack(info):
                print(error.code().name, info.reason, info.metadata["divisor"])  # INVALID_ARGUMENT NOT_DIVISIBLE 4
