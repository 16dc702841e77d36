"""Common code of the Python clients that call over REST."""

from typing import Any

from inference_calls import Json, read_parameters, read_tensors, write_response

_CODES = {400: 3, 404: 5, 413: 8, 504: 4}
"""The gRPC code for each HTTP status."""

TIMEOUT: Json = {"code": 4, "message": "the client has not waited longer"}
"""The outcome of a call that takes longer than its timeout."""


class Fields:
    """The members of a JSON object as attributes, like those of a message."""

    def __init__(self, document: Json) -> None:
        self.__dict__.update({"id": "", **document})


def describe_error(status: int, text: str) -> Json:
    """Returns the outcome of a rejected call, whose text begins with the reason."""
    return {"code": _CODES[status], "message": text, "reason": text.partition(":")[0]}


def build_triton_arguments(module: Any, request: Json) -> Json:  # noqa: ANN401 - a module of tritonclient
    """Returns the arguments of `infer`. `module` is `tritonclient.http`."""
    inputs = []
    for tensor in read_tensors(request):
        made = module.InferInput(tensor.name, list(tensor.array.shape), tensor.datatype)
        made.set_data_from_numpy(tensor.array, binary_data=not tensor.is_typed)
        inputs.append(made)
    outputs = [module.InferRequestedOutput(output["name"]) for output in request.get("outputs", [])]
    return {
        "model_name": request["model_name"],
        "inputs": inputs,
        "model_version": request.get("model_version", ""),
        "outputs": outputs or None,
        "request_id": request.get("id", ""),
        "parameters": read_parameters(request["parameters"]),
    }


def write_triton_result(result: Any) -> Json:  # noqa: ANN401 - a class of tritonclient
    """Returns a response of tritonclient."""
    answer = Fields(result.get_response())
    (output,) = result.get_response()["outputs"]
    return write_response(answer, Fields(output), result.as_numpy(output["name"]))
