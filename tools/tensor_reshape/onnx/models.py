"""Reads ONNX models, expands their functions, and runs the shape inference of the package onnx.

Invariants:

- Weights in other files are never opened, because the path of such a file comes from an untrusted source.
- A model is rejected at once if its functions call themselves, or if it has more than MAX_NODES nodes when its
  functions are expanded. The time of a check is therefore limited by the size of the file.
- The caller's model object is never changed.
"""

from collections.abc import Iterable, Iterator, Mapping
from math import prod
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple, TypeAlias

import onnx
from google.protobuf.message import DecodeError, EncodeError
from onnx.inliner import inline_local_functions
from onnx.shape_inference import InferenceError, infer_shapes

from tensor_reshape.rules.dims import Interval
from tensor_reshape.rules.errors import TensorReshapeError
from tensor_reshape.rules.operations import OperationName

ModelLike: TypeAlias = onnx.ModelProto | bytes | str | Path

MAX_NODES = 100_000
"""The largest number of nodes after the expansion of functions."""

MAX_ELEMENTS = 4096
"""The largest number of elements of a tensor whose values a check reads."""

_MAX_LIST_ITEMS = 1 << 20
_FIRST_IR_WITH_OPSETS = 3
_ONNX_ERRORS = (InferenceError, onnx.checker.ValidationError, EncodeError, MemoryError, ValueError, RuntimeError)


class ModelSource(NamedTuple):
    """A model in the form of ONNX, with properties that an ONNX model cannot express.

    Attributes:
        model: the model in the form of ONNX.
        operation: the operation whose rules the Reshape nodes follow.
        bounds: the limits of named input dimensions.
        note: a sentence about parts of the model that are not checked, or an empty text.
    """

    model: onnx.ModelProto
    operation: OperationName = "onnx_reshape"
    bounds: Mapping[str, Interval] = MappingProxyType({})
    note: str = ""


class ModelError(TensorReshapeError, ValueError):
    """The input is not a valid model, or exceeds the limits of the check.

    >>> try:
    ...     check_model(b"")
    ... except ModelError as error:
    ...     print(error)
    not an ONNX model: it has no graph
    """


def load_model(source: ModelLike) -> onnx.ModelProto:
    """Loads a model from a path or from the bytes of a file. If `source` is a model object, returns it unchanged.

    Raises:
        ModelError: the input is not an ONNX model.
        OSError: the file cannot be read.
    """
    if isinstance(source, onnx.ModelProto):
        return source
    raw = source if isinstance(source, bytes) else Path(source).read_bytes()
    if raw.lstrip()[:1] == b"<":
        message = "not an ONNX model: it is XML; only `check` and `--profile` read an OpenVINO IR, from a file *.xml"
        raise ModelError(message)
    try:
        model = onnx.ModelProto.FromString(raw)
    except DecodeError:
        raise ModelError("not an ONNX model: it is not a ModelProto") from None
    # Protobuf also accepts an empty message, and a message that has only unknown fields.
    if not model.HasField("graph"):
        raise ModelError("not an ONNX model: it has no graph")
    return model


def expand_model(model: onnx.ModelProto) -> onnx.ModelProto:
    """Returns a copy of the model in which each function call is replaced by the nodes of the function."""
    functions = (text for function in model.functions for text in _list_node_texts(function.node))
    # ONNX's messages have the syntax proto2, for which protobuf returns a name that is not UTF-8 as bytes.
    if not all(isinstance(text, str) for text in (*_list_texts(model.graph), *functions)):
        raise ModelError("not an ONNX model: a name in it is not UTF-8")
    _check_size(model)
    copy = _copy_without_weights(model)
    if copy.ir_version < _FIRST_IR_WITH_OPSETS and not copy.opset_import:
        copy.opset_import.add(version=1)  # old models without an opset use opset version 1
    _strip_functions(copy)
    try:
        return inline_local_functions(copy) if copy.functions else copy
    except _ONNX_ERRORS as error:
        raise ModelError(f"the functions of the model cannot be expanded{_quote(error)}") from None


def _copy_without_weights(model: onnx.ModelProto) -> onnx.ModelProto:
    """Returns a copy of a model without the data of initializers that have more than MAX_ELEMENTS elements.

    Such weights may have gigabytes. According to the copy, their data is in another file.
    """
    copy = onnx.ModelProto(ir_version=model.ir_version, opset_import=model.opset_import, functions=model.functions)
    graph = model.graph
    # The name of the graph is not copied, because it may not be UTF-8.
    copy.graph.CopyFrom(onnx.GraphProto(name="graph", node=graph.node, input=graph.input, output=graph.output))
    copy.graph.value_info.extend(graph.value_info)
    copy.graph.sparse_initializer.extend(graph.sparse_initializer)
    for tensor in graph.initializer:
        if 0 <= prod(tensor.dims) <= MAX_ELEMENTS:
            copy.graph.initializer.append(tensor)
        else:
            external = onnx.TensorProto.EXTERNAL
            copy.graph.initializer.add(
                name=tensor.name, data_type=tensor.data_type, dims=tensor.dims, data_location=external
            )
    return copy


def infer_model(model: onnx.ModelProto) -> tuple[onnx.ModelProto, str]:
    """Returns the model with the shapes that onnx infers, and a note if some shapes could not be inferred.

    onnx can also propagate values through nodes such as Slice and Add. It then allocates about 70 bytes for each item
    of each one-dimensional tensor, even if it knows no values. Values are therefore only propagated if these tensors
    are small.
    """
    try:
        inferred = infer_shapes(model)
        if has_long_lists(inferred.graph):
            note = f"the values of shapes are not inferred, because lists have more than {_MAX_LIST_ITEMS} items"
            return inferred, note
        return infer_shapes(model, data_prop=True), ""
    except _ONNX_ERRORS as error:
        return model, f"onnx's own shape inference failed{_quote(error)}"


def has_long_lists(graph: onnx.GraphProto) -> bool:
    """Whether the one-dimensional tensors of a graph have too many items to propagate their values."""
    return sum(_list_lengths(graph)) > _MAX_LIST_ITEMS


def _list_lengths(graph: onnx.GraphProto) -> Iterator[int]:
    """Yields the known lengths of one-dimensional tensors, including those in graphs inside nodes.

    Initializers are left out, because onnx reads only the data that they contain.
    """
    constants = {tensor.name for tensor in graph.initializer}
    for info in (*graph.input, *graph.value_info, *graph.output):
        dims = info.type.tensor_type.shape.dim
        if len(dims) == 1 and info.name not in constants:
            yield max(dims[0].dim_value, 0)
    for node in graph.node:
        for _, inner in list_subgraphs(node):
            yield from _list_lengths(inner)


def _strip_functions(model: onnx.ModelProto) -> None:
    """Removes the names of dims in functions, because in two calls of a function, these dims may differ."""
    for function in model.functions:
        function.ClearField("value_info")
        graphs = [graph for node in _list_all_nodes(function.node) for _, graph in list_subgraphs(node)]
        for info in (info for graph in graphs for info in (*graph.input, *graph.output, *graph.value_info)):
            for dim in info.type.tensor_type.shape.dim:
                dim.ClearField("dim_param")


def list_subgraphs(node: onnx.NodeProto) -> Iterator[tuple[str, onnx.GraphProto]]:
    """Yields the graphs inside a node such as If, Loop or Scan, each with the name of the graph's attribute."""
    for attribute in node.attribute:
        if attribute.type == onnx.AttributeProto.GRAPH:
            yield attribute.name, attribute.g
        elif attribute.type == onnx.AttributeProto.GRAPHS:
            yield from ((f"{attribute.name}[{place}]", graph) for place, graph in enumerate(attribute.graphs))


def _quote(error: Exception) -> str:
    """Returns the first line of onnx's error about the model, as the end of an error message.

    The texts of other exceptions are not quoted, because they are about Python and not about the model.
    """
    found = str(error).splitlines() if isinstance(error, InferenceError | onnx.checker.ValidationError) else []
    return f": {found[0]}" if found else ""


def _list_texts(graph: onnx.GraphProto) -> Iterator[object]:
    yield from (tensor.name for tensor in graph.initializer)
    yield from _list_node_texts(graph.node)
    for info in (*graph.input, *graph.output, *graph.value_info):
        yield info.name
        yield from (dim.dim_param for dim in info.type.tensor_type.shape.dim)


def _list_node_texts(nodes: Iterable[onnx.NodeProto]) -> Iterator[object]:
    for node in nodes:
        yield from (node.name, node.op_type, node.domain, *node.input, *node.output)
        yield from (attribute.name for attribute in node.attribute)
        for _, graph in list_subgraphs(node):
            yield from _list_texts(graph)


def _check_size(model: onnx.ModelProto) -> None:
    functions = {(function.domain, function.name): function for function in model.functions}
    sizes: dict[tuple[str, str], int] = {}

    def measure(nodes: Iterator[onnx.NodeProto], depth: int) -> int:
        # If a chain of calls is longer than the number of functions, a function calls itself. The limit of 100 levels
        # is higher than in real models, and is safe for Python's stack.
        if depth > min(len(functions), 100):
            raise ModelError("the functions of the model call themselves, or call each other more than 100 levels deep")
        return sum(measure_call((node.domain, node.op_type), depth) for node in nodes)

    def measure_call(key: tuple[str, str], depth: int) -> int:
        if key in functions and key not in sizes:
            sizes[key] = measure(_list_all_nodes(functions[key].node), depth + 1)
        return 1 + sizes.get(key, 0)

    count = measure(_list_all_nodes(model.graph.node), 0)
    if count > MAX_NODES:
        raise ModelError(f"the model has {count} nodes after expanding its functions; at most {MAX_NODES} are allowed")


def _list_all_nodes(nodes: Iterable[onnx.NodeProto]) -> Iterator[onnx.NodeProto]:
    for node in nodes:
        yield node
        for _, graph in list_subgraphs(node):
            yield from _list_all_nodes(graph.node)
