import sys

import numpy as np
import tritonclient.http as triton
from tritonclient.utils import InferenceServerException

data = triton.InferInput("data", [2, 3], "FP32")
data.set_data_from_numpy(np.array([[1, 2, 3], [4, 5, 6]], np.float32))
with triton.InferenceServerClient(sys.argv[1] if len(sys.argv) > 1 else "localhost:8080") as client:
    result = client.infer("reshape", [data], parameters={"shape": "[3,-1]", "special_zero": False})
    print(result.as_numpy("output").tolist())  # [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]

    try:
        client.infer("reshape", [data], parameters={"shape": "[4,-1]", "special_zero": False})
    except InferenceServerException as error:
        print(error.message().partition(":")[0])  # NOT_DIVISIBLE
