"""Executes one reshape with one library, in a process of its own, and prints what the library does as JSON.

`compare` starts this file as a program, and writes one query to its standard input. The program prints one line of
JSON, which is null if the library is not installed.

Invariants:

- The program imports the standard library, the library of the query, and numpy if this library needs it.
- The line contains no element and no text of the library, because a library that reads outside the data may put
  memory of the process into both.
- Standard output has only this line. The text that a library prints goes to standard error.
- An error of the import or the session is not a rejection, because these steps depend on neither of the shapes.
"""

import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import NamedTuple


class LibraryQuery(NamedTuple):
    """A reshape that a library executes.

    Attributes:
        name: the module of the library, a key of `LIBRARIES`.
        data: the shape of the data, which are f32 zeros.
        shape: the requested shape.
        special_zero: whether a 0 copies a dimension. numpy and torch have no such choice.
    """

    name: str
    data: Sequence[int]
    shape: Sequence[int]
    special_zero: bool


_Execute = Callable[[], Sequence[int]]
"""A function that executes a reshape and returns the output shape."""


def _prepare_numpy(numpy: ModuleType, query: LibraryQuery) -> _Execute:
    return lambda: numpy.zeros(query.data, numpy.float32).reshape(query.shape).shape


def _prepare_torch(torch: ModuleType, query: LibraryQuery) -> _Execute:
    return lambda: torch.zeros(query.data).reshape(query.shape).shape


def _prepare_onnxruntime(onnxruntime: ModuleType, query: LibraryQuery) -> _Execute:
    numpy, model = import_module("numpy"), _build_model(allowzero=not query.special_zero)
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    shape = numpy.array(query.shape, numpy.int64)
    return lambda: session.run(None, {"data": numpy.zeros(query.data, numpy.float32), "shape": shape})[0].shape


def _prepare_openvino(openvino: ModuleType, query: LibraryQuery) -> _Execute:
    numpy, operations = import_module("numpy"), import_module("openvino.opset1")
    core, shape = openvino.Core(), numpy.array(query.shape, numpy.int64)
    core.get_versions("CPU")  # it fails if the plugin of the CPU cannot be loaded

    def execute() -> Sequence[int]:  # the node may reject the shape, so a model cannot be prepared
        data = openvino.op.Parameter(openvino.Type.f32, openvino.Shape(query.data))
        node = operations.reshape(data, shape, special_zero=query.special_zero)
        model = core.compile_model(openvino.Model([node], [data], "compare"), "CPU")
        output: Sequence[int] = model([numpy.zeros(query.data, numpy.float32)])[0].shape
        return output

    return execute


LIBRARIES: Mapping[str, Callable[[ModuleType, LibraryQuery], _Execute]] = {
    "numpy": _prepare_numpy,
    "torch": _prepare_torch,
    "onnxruntime": _prepare_onnxruntime,
    "openvino": _prepare_openvino,
}
"""The libraries by the names of their modules, which are also the names that pip installs."""

HAVE_SPECIAL_ZERO = ("onnxruntime", "openvino")
"""The libraries in which a 0 can copy a dimension."""


def _build_model(*, allowzero: bool) -> bytes:
    """Returns an ONNX model of one Reshape node. The package onnx could write it, but onnxruntime does not need onnx.

    The model is a protobuf message. The numbers are those of the fields in onnx.proto.
    """

    def number(value: int) -> bytes:  # two bytes are enough, because all values are small
        return bytes([value]) if value < 128 else bytes([value & 127 | 128, value >> 7])  # noqa: PLR2004 - 7 bits each

    def field(key: int, value: bytes | int) -> bytes:
        if isinstance(value, int):
            return number(key << 3) + number(value)
        return number(key << 3 | 2) + number(len(value)) + value

    def declare(key: int, name: bytes, element_type: int) -> bytes:  # an input or output of unknown rank
        return field(key, field(1, name) + field(2, field(1, field(1, element_type))))

    attribute = field(1, b"allowzero") + field(3, int(allowzero)) + field(20, 2)
    node = field(1, b"data") + field(1, b"shape") + field(2, b"out") + field(4, b"Reshape") + field(5, attribute)
    ports = declare(11, b"data", 1) + declare(11, b"shape", 7) + declare(12, b"out", 1)
    graph = field(1, node) + field(2, b"compare") + ports
    return field(1, 8) + field(7, graph) + field(8, field(2, 14))


def answer(query: LibraryQuery) -> dict[str, object] | None:
    """Returns what the library does, or None if it is not installed.

    The keys are "version" with "dims", which is the output shape, or with "error", which is the class of the library's
    error, or with "failure" if memory is missing. If the library cannot be imported, or fails before the reshape, the
    only key is "unusable".
    """
    if find_spec(query.name) is None:
        return None
    try:
        library = import_module(query.name)
        version = {"version": str(library.__version__).partition("-")[0]}  # without the commit of a build
        execute = LIBRARIES[query.name](library, query)
    except Exception as error:  # noqa: BLE001 - an incomplete installation can fail in any way
        return {"unusable": f"cannot be used: {type(error).__name__}"}
    try:
        return {**version, "dims": list(execute())}
    except MemoryError:
        return {**version, "failure": "out of memory"}
    except Exception as error:  # noqa: BLE001 - the libraries reject with errors of many classes
        return {**version, "error": type(error).__name__}


if __name__ == "__main__":
    answers = os.dup(1)
    os.dup2(2, 1)
    os.write(answers, json.dumps(answer(LibraryQuery(*json.load(sys.stdin)))).encode())
