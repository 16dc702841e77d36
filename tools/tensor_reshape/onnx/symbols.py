"""Gives formulas to dims that nodes compute, such as `floor(h/2)`, with the package onnx-shape-inference.

Invariants:

- A formula is used only if it consists of names of the model. If a probe contradicts one, the check is repeated without
  formulas.
- An error of the package, or a dim that it does not know, leaves the dims as onnx infers them.
- The package is not used for a model with long lists, because it makes a name for each item that it does not know.
"""

from collections.abc import Iterator
from contextlib import suppress
from functools import cache, partial

import onnx
import onnx_ir
from onnx_shape_inference import infer_symbolic_shapes

from tensor_reshape.onnx.annotations import list_graphs
from tensor_reshape.onnx.dim_params import DimParams, Key
from tensor_reshape.onnx.models import has_long_lists
from tensor_reshape.onnx.reshape_nodes import list_shapes, name_graph

_MAX_CHARACTERS = 100  # of a formula that the package reads, because it has no limit of time
_MAX_NAMES = 1 << 14  # a check with so many names takes about a second longer


def add_symbols(inferred: onnx.ModelProto, model: onnx.ModelProto, params: DimParams) -> None:
    """Writes formulas into the dims that onnx leaves unknown.

    Args:
        inferred: the model with the shapes that onnx infers.
        model: the model before that inference.
        params: the names of its dims.
    """
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
    """Returns the number of items in lists that Concat joins and in targets, for which the package may make names."""
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
    """Whether the package can read a dim quickly, and the dim consists of names in the model."""
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
    """Writes dims where a shape has none."""
    for written, dim in zip(shape.dim, dims, strict=False):
        if written.HasField("dim_value") or params.has(written.dim_param.strip()):
            continue
        # The package takes the end of a Slice for a size, so its numbers are not used.
        if not isinstance(dim, int) and params.admit(dim.value or ""):
            written.dim_param = dim.value or ""
