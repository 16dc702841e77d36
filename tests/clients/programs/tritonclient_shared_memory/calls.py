"""Calls with tritonclient's shared memory. No message contains elements of a tensor."""

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import tritonclient.grpc as triton
from tritonclient.utils import InferenceServerException, shared_memory

from inference_calls import Json, Tensor, find_dtype, read_tensors, write_response
from triton_requests import build_arguments, run, write_error

ANSWER = "answer"
LEAST_BYTES = 1024  # a region cannot be empty, and the output of `infer_shape` may be longer than its input


@contextmanager
def register(client: triton.InferenceServerClient, name: str, byte_size: int) -> Iterator[Any]:
    key = f"/calls-of-tritonclient-{os.getpid()}-{name}"
    memory = shared_memory.create_shared_memory_region(name, key, byte_size, create_only=True)
    try:
        client.register_system_shared_memory(name, key, byte_size)
        yield memory
        client.unregister_system_shared_memory(name)
    finally:
        shared_memory.destroy_shared_memory_region(memory)


def share(client: triton.InferenceServerClient, tensor: Tensor, stack: ExitStack) -> triton.InferInput:
    memory = stack.enter_context(register(client, tensor.name, max(tensor.array.nbytes, LEAST_BYTES)))
    shared_memory.set_shared_memory_region(memory, [tensor.array.reshape(-1)])
    made = triton.InferInput(tensor.name, tensor.array.shape, tensor.datatype)
    made.set_shared_memory(tensor.name, tensor.array.nbytes)
    return made


def ask(client: triton.InferenceServerClient, request: Json, seconds: float) -> Json:
    tensors = list(read_tensors(request))
    room = max(LEAST_BYTES, *[tensor.array.nbytes for tensor in tensors])
    output = triton.InferRequestedOutput("shape" if request["model_name"] == "infer_shape" else "output")
    output.set_shared_memory(ANSWER, room)
    with ExitStack() as stack:
        inputs = [share(client, tensor, stack) for tensor in tensors]
        memory = stack.enter_context(register(client, ANSWER, room))
        arguments = {**build_arguments(request), "inputs": inputs, "outputs": [output]}
        try:
            result = client.infer(**arguments, client_timeout=seconds)
        except InferenceServerException as error:
            return write_error(error)
        answer = result.get_output(output.name())
        array = shared_memory.get_contents_as_numpy(memory, find_dtype(answer.datatype), list(answer.shape))
        # Copied, because the memory cannot be closed while an object refers to it.
        return write_response(result.get_response(), answer, array.copy())


if __name__ == "__main__":
    run(ask)
