"""Common code of all Python clients of the Open Inference Protocol.

A call is the JSON of a ModelInferRequest. The client makes the request again with its own classes. The result is the
JSON of a ModelInferResponse with raw contents, whatever the form of the response.
"""

import base64
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import grpc
import numpy as np
import numpy.typing as npt

from calls_of_python import print_answer, read_lines

Json = dict[str, Any]
Array = npt.NDArray[Any]

_DTYPES = {
    "BOOL": "?",
    "UINT8": "<u1",
    "UINT16": "<u2",
    "UINT32": "<u4",
    "UINT64": "<u8",
    "INT8": "<i1",
    "INT16": "<i2",
    "INT32": "<i4",
    "INT64": "<i8",
    "FP16": "<f2",
    "FP32": "<f4",
    "FP64": "<f8",
}


class Tensor(NamedTuple):
    """An input, and whether its elements are numbers in the field of their type."""

    name: str
    datatype: str
    array: Array
    is_typed: bool


def read_calls() -> tuple[str, Iterator[Json]]:
    """Returns the address of the server, and the calls."""
    lines = read_lines()
    return next(lines)["address"], lines


def answer_calls(calls: Iterator[Json], ask: Callable[[Json, float], Json]) -> None:
    """Makes the calls one after another, each with its request and its timeout."""
    for call in calls:
        print_answer(ask(call["requests"][0], call["seconds"]))


def find_dtype(datatype: str) -> np.dtype[Any]:
    """Returns numpy's type for a type name of the protocol."""
    if datatype != "BF16":
        return np.dtype(_DTYPES[datatype])
    import ml_dtypes  # noqa: PLC0415 - not every client's environment has it

    bfloat16: np.dtype[Any] = np.dtype(ml_dtypes.bfloat16)
    return bfloat16


def read_tensors(request: Json) -> Iterator[Tensor]:
    """Yields the inputs of a request."""
    raw = iter(request.get("raw_input_contents", []))
    for given in request["inputs"]:
        dtype, dims = find_dtype(given["datatype"]), [int(dim) for dim in given.get("shape", [])]
        if "contents" in given:
            (elements,) = given["contents"].values()
            array = np.array([_read_number(element) for element in elements], dtype)
        else:
            array = np.frombuffer(base64.b64decode(next(raw)), dtype)
        yield Tensor(given["name"], given["datatype"], array.reshape(dims), "contents" in given)


def read_parameters(given: Mapping[str, Json]) -> dict[str, Any]:
    """Returns parameters with Python values, because JSON writes 64-bit numbers as text."""
    return {
        name: int(value) if choice == "int64_param" else value
        for name, chosen in given.items()
        for choice, value in chosen.items()
    }


def write_response(answer: Any, output: Any, array: Array) -> Json:  # noqa: ANN401 - its type depends on the client
    """Returns the result of one call.

    Args:
        answer: an object with the attributes of a ModelInferResponse.
        output: an object with the attributes of its output.
        array: the elements of the output.
    """
    described = {"name": output.name, "datatype": output.datatype, "shape": [str(dim) for dim in array.shape]}
    if array.dtype != find_dtype(output.datatype) or list(array.shape) != list(output.shape):
        described["datatype"] = f"{array.dtype} in place of {output.datatype}"
    named = {"model_name": answer.model_name, "model_version": answer.model_version, "id": answer.id}
    raw = [base64.b64encode(array.tobytes()).decode()]
    return {"responses": [{**named, "outputs": [described], "raw_output_contents": raw}]}


def write_status(error: Exception) -> Json:
    """Returns the outcome of a failed call, for clients that keep only the text: `StatusCode.NAME`."""
    name = str(getattr(error, "status", lambda: "")() or "").removeprefix("StatusCode.")
    return {"code": grpc.StatusCode[name or "UNKNOWN"].value[0], "message": str(error)}


def _read_number(element: bool | float | str) -> bool | float:
    return int(element) if isinstance(element, str) else element  # 64-bit numbers are text
