"""Reads, removes and writes the shapes of Reshape outputs in a model."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

import onnx

from tensor_reshape.onnx.dim_params import DimParams, Key
from tensor_reshape.onnx.models import list_subgraphs
from tensor_reshape.onnx.reshape_nodes import is_reshape, list_shapes, name_graph
from tensor_reshape.rules.dims import AnyDim

Shapes: TypeAlias = Mapping[Key, Sequence[AnyDim]]


def list_graphs(graph: onnx.GraphProto, path: str = "") -> Iterator[tuple[str, onnx.GraphProto]]:
    """Yields a graph and all graphs inside of its nodes, each with its path, as in `ReshapeNode.graph`."""
    yield path, graph
    for node in graph.node:
        for attribute, inner in list_subgraphs(node):
            yield from list_graphs(inner, name_graph(path, node.output, node.name, attribute))


def read_shapes(model: onnx.ModelProto, params: DimParams) -> dict[Key, tuple[AnyDim, ...]]:
    """Returns the shape that the model declares for each Reshape output, with None for an unknown dim."""
    return {
        (path, name): params.read_declared(shape)
        for path, graph in list_graphs(model.graph)
        for outputs in [_list_outputs(graph)]
        for name, shape in list_shapes(graph)
        if name in outputs
    }


def rename_params(model: onnx.ModelProto, params: DimParams, suffix: str) -> None:
    """Adds a suffix to the names that onnx has created for unknown dims.

    In each inference, onnx numbers these names from the beginning, and ignores the names in graphs inside of nodes.
    Without a suffix, two dims could have the same name.
    """
    for _, graph in list_graphs(model.graph):
        for _, shape in list_shapes(graph):
            for dim in shape.dim:
                if dim.dim_param and not params.has(dim.dim_param.strip()):
                    dim.dim_param += suffix


def strip_claims(model: onnx.ModelProto) -> None:
    """Removes the shapes that a model declares for outputs of nodes, except for nodes that onnx does not know."""
    for _, graph in list_graphs(model.graph):
        unknown = {
            output for node in graph.node if not onnx.defs.has(node.op_type, node.domain) for output in node.output
        }
        for info in (*graph.value_info, *graph.output):
            if info.type.HasField("tensor_type") and info.name not in unknown:
                info.type.tensor_type.ClearField("shape")


def strip_shapes(model: onnx.ModelProto) -> None:
    """Removes the shapes that a model declares for Reshape outputs."""
    for _, graph in list_graphs(model.graph):
        outputs = _list_outputs(graph)
        for info in (*graph.value_info, *graph.output):
            if info.name in outputs:
                info.type.tensor_type.ClearField("shape")


def write_shapes(model: onnx.ModelProto, typed: onnx.ModelProto, shapes: Shapes, params: DimParams) -> None:
    """Writes shapes of Reshape outputs into a model, except for dims that the model declares.

    Args:
        model: the model to change.
        typed: the model with the element types that onnx has inferred. The types are needed, because a shape cannot be
            written without a type.
        shapes: the shapes of Reshape outputs.
        params: the names of the model's dims.
    """
    types = {path: _list_types(graph) for path, graph in list_graphs(typed.graph)}
    for path, graph in list_graphs(model.graph):
        infos = {info.name: info for info in (*graph.value_info, *graph.output)}
        for name in _list_outputs(graph):
            data_type = types.get(path, {}).get(name, onnx.TensorProto.UNDEFINED)
            if (path, name) not in shapes or data_type == onnx.TensorProto.UNDEFINED:
                continue
            info = infos.get(name) or graph.value_info.add(name=name)
            info.type.tensor_type.elem_type = data_type
            _fill_shape(info.type.tensor_type, params.write_shape(shapes[path, name]))


def _list_outputs(graph: onnx.GraphProto) -> dict[str, None]:
    return dict.fromkeys(node.output[0] for node in graph.node if is_reshape(node))


def _list_types(graph: onnx.GraphProto) -> dict[str, int]:
    infos = (*graph.value_info, *graph.output)
    return {info.name: info.type.tensor_type.elem_type for info in infos if info.type.HasField("tensor_type")}


def _fill_shape(tensor: onnx.TypeProto.Tensor, shape: onnx.TensorShapeProto) -> None:
    """Writes the unknown dims of a shape, and leaves the declared dims unchanged."""
    if not tensor.HasField("shape"):
        tensor.shape.CopyFrom(shape)
        return
    if len(tensor.shape.dim) != len(shape.dim):
        return  # if the model declares a wrong rank, the annotations do not change it
    for own, other in zip(tensor.shape.dim, shape.dim, strict=True):
        if own.WhichOneof("value") is None:
            own.CopyFrom(other)
