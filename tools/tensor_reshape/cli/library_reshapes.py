"""Executes one reshape with one library in a separate process, and prints the answer of the library as JSON.

The module `compare` starts this file as a program, and writes one query to its standard input. The program prints one
line of JSON, which is null if the library is not installed.

Invariants:

- The program imports the standard library, the library of the query, and numpy if this library needs it.
- The line contains no elements and no text from the library. If a library reads outside the data, its elements and its
  error texts may contain memory of the process.
- Standard output has only this line. The text that a library prints goes to standard error.
- An error during the import or the creation of a session is not a rejection, because these steps do not depend on the
  two shapes.
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
        name: the name of the library's module, which is a key of `LIBRARIES`.
        data: the shape of the data, whose elements are f32 zeros.
        shape: the requested shape.
        special_zero: whether a 0 copies a dimension. The value is ignored by numpy and torch, in which a 0 never
            copies a dimension.
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
    core.get_versions("CPU")  # this call fails if the CPU plugin of OpenVINO cannot be loaded

    def execute() -> Sequence[int]:  # this function creates the node, which may reject the shape
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
    """Returns an ONNX model with one Reshape node.

    The package onnx is not used, because onnxruntime does not need it. The model is an encoded protobuf message, and
    each `key` is the number of a field in onnx.proto.
    """

    def number(value: int) -> bytes:  # a varint of up to two bytes, because all values are small
        return bytes([value]) if value < 128 else bytes([value & 127 | 128, value >> 7])  # noqa: PLR2004 - 7 bits each

    def field(key: int, value: bytes | int) -> bytes:
        if isinstance(value, int):
            return number(key << 3) + number(value)
        return number(key << 3 | 2) + number(len(value)) + value

    def declare(key: int, name: bytes, element_type: int) -> bytes:  # declares an input or output of unknown rank
        return field(key, field(1, name) + field(2, field(1, field(1, element_type))))

    attribute = field(1, b"allowzero") + field(3, int(allowzero)) + field(20, 2)
    node = field(1, b"data") + field(1, b"shape") + field(2, b"out") + field(4, b"Reshape") + field(5, attribute)
    ports = declare(11, b"data", 1) + declare(11, b"shape", 7) + declare(12, b"out", 1)
    graph = field(1, node) + field(2, b"compare") + ports
    return field(1, 8) + field(7, graph) + field(8, field(2, 14))


def answer(query: LibraryQuery) -> dict[str, object] | None:
    """Executes the query with its library and returns the answer, or None if the library is not installed.

    The answer has the key "version" and one other key. This key is "dims" with the output shape, "error" with the class
    of the library's error, or "failure" if there is not enough memory. If the library cannot be imported, or fails
    before the reshape, the only key is "unusable".
    """
    if find_spec(query.name) is None:
        return None
    try:
        library = import_module(query.name)
        version = {"version": str(library.__version__).partition("-")[0]}  # leaves out the commit after the version
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
