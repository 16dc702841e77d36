"""Reads, removes and writes the shapes of tensors in a model.

For dims that nodes compute, the package onnx-shape-inference infers formulas such as `floor(h/2)`.

Invariants:

- A formula is used only if all names in it are names of dims in the model. If a formula contradicts the result for
  tried sizes, the check is repeated without formulas.
- If the package raises an error or does not know a dim, the dims stay as onnx infers them.
- The package is not used for a model with long lists of dims, because it creates a name for each unknown item.
"""

from collections.abc import Iterator
from contextlib import suppress
from functools import cache, partial

import onnx
import onnx_ir
from onnx_shape_inference import infer_symbolic_shapes

from tensor_reshape.onnx.dim_params import DimParams, DimsByKey, Key
from tensor_reshape.onnx.models import has_long_lists, list_subgraphs
from tensor_reshape.onnx.reshape_nodes import is_reshape, list_shapes, name_graph
from tensor_reshape.rules.dims import AnyDim

_MAX_CHARACTERS = 100  # maximum length of a formula that the package may read, because it has no time limit
_MAX_NAMES = 1 << 14  # with so many names, a check takes about a second longer


def list_graphs(graph: onnx.GraphProto, path: str = "") -> Iterator[tuple[str, onnx.GraphProto]]:
    """Yields a graph and all graphs inside its nodes, each with its path (see `ReshapeNode.graph`)."""
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

    In each run of its inference, onnx numbers these names from the beginning, and it ignores the names that graphs
    inside nodes already have. Without a suffix, two different dims could therefore have the same name.
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


def write_shapes(model: onnx.ModelProto, typed: onnx.ModelProto, shapes: DimsByKey, params: DimParams) -> None:
    """Writes the shapes of Reshape outputs into a model. Dims that the model declares are not changed.

    Args:
        model: the model to change.
        typed: the model with the element types that onnx has inferred. The types are needed, because a shape cannot be
            written without a type.
        shapes: the shapes of Reshape outputs.
        params: the names of the model's dims.
    """
    types = {
        (path, info.name): info.type.tensor_type.elem_type
        for path, graph in list_graphs(typed.graph)
        for info in (*graph.value_info, *graph.output)
    }
    for path, graph in list_graphs(model.graph):
        infos = {info.name: info for info in (*graph.value_info, *graph.output)}
        for name in _list_outputs(graph):
            data_type = types.get((path, name), onnx.TensorProto.UNDEFINED)
            if (path, name) not in shapes or data_type == onnx.TensorProto.UNDEFINED:
                continue
            info = infos.get(name) or graph.value_info.add(name=name)
            info.type.tensor_type.elem_type = data_type
            own, inferred = info.type.tensor_type.shape, params.write_shape(shapes[path, name])
            if not info.type.tensor_type.HasField("shape"):
                own.CopyFrom(inferred)
            # If the model declares another rank, the declared shape is not changed.
            for dim, other in zip(own.dim, inferred.dim, strict=False) if len(own.dim) == len(inferred.dim) else ():
                if dim.WhichOneof("value") is None:
                    dim.CopyFrom(other)


def _list_outputs(graph: onnx.GraphProto) -> dict[str, None]:
    return dict.fromkeys(node.output[0] for node in graph.node if is_reshape(node))


def add_symbols(inferred: onnx.ModelProto, model: onnx.ModelProto, params: DimParams) -> None:
    """Writes formulas into the inferred model for the dims that onnx leaves unknown."""
    if has_long_lists(inferred.graph) or _count_names(inferred.graph) > _MAX_NAMES:
        return
    found = _infer(model, params)
    for path, graph in list_graphs(inferred.graph):
        shapes = dict(list_shapes(graph))
        for name in [output for node in graph.node for output in node.output]:
            value = found.get((path, name))
            if value is None or value.shape is None or value.dtype is None:
                continue
            if name not in shapes:
                info = graph.value_info.add(name=name)
                info.type.tensor_type.elem_type = value.dtype
                info.type.tensor_type.shape.dim.extend(onnx.TensorShapeProto.Dimension() for _ in value.shape)
                shapes[name] = info.type.tensor_type.shape
            _add(shapes[name], value.shape, params)


def _count_names(root: onnx.GraphProto) -> int:
    """Returns how many items of requested shapes and of inputs of Concat may get a name from the package."""
    graphs = [graph for _, graph in list_graphs(root)]
    shapes = {name: [dim.dim_value for dim in shape.dim] for graph in graphs for name, shape in list_shapes(graph)}
    shapes |= {tensor.name: list(tensor.dims) for graph in graphs for tensor in graph.initializer}
    nodes = [node for graph in graphs for node in graph.node]
    read = [name for node in nodes if node.op_type == "Concat" for name in node.input]
    read += [name for node in nodes if node.op_type == "Reshape" for name in node.input[1:]]
    return sum(max(*shapes[name], 0) for name in read if len(shapes.get(name, ())) == 1)


def _infer(model: onnx.ModelProto, params: DimParams) -> dict[Key, onnx_ir.Value]:
    """Returns the tensors with the shapes that the package infers."""
    is_readable = cache(partial(_is_readable, params=params))
    try:
        read = onnx_ir.from_proto(model)
        for _, value in _list_values(read.graph):
            if value.shape is not None:
                value.shape = onnx_ir.Shape(
                    dim if isinstance(dim, int) or is_readable(dim.value) else None for dim in value.shape
                )
        infer_symbolic_shapes(read, warn_on_missing=False, adopt_declared_symbols=False)
    except Exception:  # noqa: BLE001 - formulas are optional, and a malformed model causes errors of many types
        return {}
    return dict(_list_values(read.graph))


def _is_readable(text: str | None, params: DimParams) -> bool:
    """Whether the package can read the text of a dim quickly, and all names in it are names of dims in the model."""
    if not text or len(text) > _MAX_CHARACTERS or "**" in text:
        return False
    with suppress(ValueError):
        return params.are_names(onnx_ir.SymbolicDim(text).free_symbols())
    return False


def _list_values(graph: onnx_ir.Graph, path: str = "") -> Iterator[tuple[Key, onnx_ir.Value]]:
    """Yields the inputs of a graph and of the graphs in its nodes, and all outputs of nodes."""
    for value in graph.inputs:
        yield (path, value.name or ""), value
    for node in graph:
        outputs = [value.name or "" for value in node.outputs]
        for name, value in zip(outputs, node.outputs, strict=True):
            yield (path, name), value
        for attribute in node.attributes.values():
            if attribute.type is onnx_ir.AttributeType.GRAPH:
                yield from _list_values(
                    attribute.as_graph(), name_graph(path, outputs, node.name or "", attribute.name)
                )


def _add(shape: onnx.TensorShapeProto, dims: onnx_ir.Shape, params: DimParams) -> None:
    """Writes dims into a shape at the places that have neither a number nor a name."""
    for written, dim in zip(shape.dim, dims, strict=False):
        if written.HasField("dim_value") or params.has(written.dim_param.strip()):
            continue
        # Numbers from the package are not used, because it uses the end of a Slice as a size.
        if not isinstance(dim, int) and params.admit(dim.value or ""):
            written.dim_param = dim.value or ""
