import sys

import numpy as np
from tritonclient.grpc import InferenceServerClient, InferInput
from tritonclient.utils import InferenceServerException

address = sys.argv[1] if len(sys.argv) > 1 else "localhost:50051"
client = InferenceServerClient(address)

elements = np.arange(1, 7, dtype=np.float32).reshape(2, 3)
data = InferInput("data", elements.shape, "FP32")
data.set_data_from_numpy(elements)
parameters = {"shape": "[3,-1]", "special_zero": False}
answer = client.infer("static_reshape", [data], parameters=parameters, client_timeout=10)
print(answer.as_numpy("output").tolist())  # [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]

try:
    client.infer("static_reshape", [data], parameters={**parameters, "shape": "[4,-1]"}, client_timeout=10)
except InferenceServerException as error:
    print(error.status())  # StatusCode.INVALID_ARGUMENT
