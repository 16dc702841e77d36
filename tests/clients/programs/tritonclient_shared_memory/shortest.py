import sys

import numpy as np
import tritonclient.grpc as triton
from tritonclient.utils import shared_memory

elements = np.array([[1, 2, 3], [4, 5, 6]], np.float32)
memory = shared_memory.create_shared_memory_region("both", "/reshape-both", 2 * elements.nbytes, create_only=True)
shared_memory.set_shared_memory_region(memory, [elements])
data = triton.InferInput("data", [2, 3], "FP32")
data.set_shared_memory("both", elements.nbytes)
output = triton.InferRequestedOutput("output")
output.set_shared_memory("both", elements.nbytes, offset=elements.nbytes)

# The same user has started the server with --shared-memory-dir /dev/shm.
with triton.InferenceServerClient(sys.argv[1] if len(sys.argv) > 1 else "localhost:50051") as client:
    client.register_system_shared_memory("both", "/reshape-both", 2 * elements.nbytes)
    result = client.infer("reshape", [data], outputs=[output], parameters={"shape": "[3,-1]", "special_zero": False})
    dims = list(result.get_output("output").shape)
    array = shared_memory.get_contents_as_numpy(memory, np.float32, dims, offset=elements.nbytes)
    print(array.tolist())  # [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]
    client.unregister_system_shared_memory("both")

del array  # the memory can be closed only if no view of it is left
shared_memory.destroy_shared_memory_region(memory)
