import sys

import numpy as np
import tritonclient.grpc as triton
from google.rpc import error_details_pb2
from grpc_status import rpc_status
from tritonclient.utils import InferenceServerException

data = triton.InferInput("data", [2, 3], "FP32")
data.set_data_from_numpy(np.array([[1, 2, 3], [4, 5, 6]], np.float32))
with triton.InferenceServerClient(sys.argv[1] if len(sys.argv) > 1 else "localhost:50051") as client:
    result = client.infer("reshape", [data], parameters={"shape": "[3,-1]", "special_zero": False}, client_timeout=10)
    print(result.as_numpy("output").tolist())  # [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]

    try:
        client.infer("reshape", [data], parameters={"shape": "[4,-1]", "special_zero": False}, client_timeout=10)
    except InferenceServerException as error:
        # The error of tritonclient has only the text. The gRPC error that caused it has the details.
        info = error_details_pb2.ErrorInfo()
        for detail in rpc_status.from_call(error.__context__).details:
            if detail.Unpack(info):
                print(info.reason, info.metadata["divisor"])  # NOT_DIVISIBLE 4
