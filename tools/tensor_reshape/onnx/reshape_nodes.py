"""The Reshape nodes of a model, each with what is known of its data and of its target.

Nodes are read in the order of the file, which is the order of their execution; graphs in nodes (If, Loop, Scan) see
what is outside of them. A name is taken as it was last given, so a cycle is no loop here.
"""

from collections import ChainMap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import onnx

from tensor_reshape.onnx.dim_params import DimParams
from tensor_reshape.onnx.models import list_subgraphs
from tensor_reshape.onnx.shape_values import Operand, ShapeValue, compute_value, read_tensor
from tensor_reshape.onnx.zero_items import list_copying_items
from tensor_reshape.rules.dims import AnyDim
from tensor_reshape.rules.limits import MAX_RANK

_FIRST_IR_WITH_DEFAULTS = 4
_KEEPS_SHAPE = frozenset(
    {
        "Abs",
        "Cast",
        "Clip",
        "Dropout",
        "Elu",
        "Erf",
        "Exp",
        "Gelu",
        "Identity",
        "LeakyRelu",
        "Log",
        "Mish",
        "Neg",
        "Relu",
        "Selu",
        "Sigmoid",
        "Softmax",
        "Softplus",
        "Sqrt",
        "Tanh",
    }
)
"""Operators whose first output has the shape of their first input."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReshapeNode:
    """One Reshape node.

    Attributes:
        name: of the node, which may be empty.
        graph: where it is: empty for the model's own graph, else the nodes and attributes around it (`y.then_branch`).
        output: the name of its output.
        data: what is known of the shape of its data; None: not even the rank.
        target: what is known of its target; None: not even its length.
        copying: the places of items of the target that the model computes, and that are 0 in runs where they copy
            another dim: as lengths they are unknown.
        special_zero: whether a 0 copies: what `allowzero` is not.
        data_from: the index of the node, among all, whose output has the shape of the data; None: there is none.

    >>> (finding,) = check_model(model).findings
    >>> finding.node.output, finding.node.shape, finding.node.special_zero
    ('y', (0, -1), True)
    """

    name: str
    graph: str
    output: str
    data: tuple[AnyDim, ...] | None
    target: tuple[AnyDim, ...] | None
    copying: tuple[int, ...]
    special_zero: bool
    data_from: int | None

    @property
    def shape(self) -> tuple[AnyDim, ...] | None:
        """The target as it is asked for: None for an item that may be another length than it says."""
        if self.target is None:
            return None
        return tuple(None if place in self.copying else item for place, item in enumerate(self.target))


@dataclass(slots=True)
class _Scope:
    """What is known of the names that a node sees."""

    shapes: ChainMap[str, tuple[AnyDim, ...]]
    values: ChainMap[str, ShapeValue | None]
    makers: ChainMap[str, int]  # by the name of a tensor: the Reshape node whose output has its shape
    replaceable: frozenset[str]  # constants that are the defaults of inputs

    def nest(self) -> "_Scope":
        return _Scope(self.shapes.new_child(), self.values.new_child(), self.makers.new_child(), self.replaceable)


def find_reshape_nodes(model: onnx.ModelProto, params: DimParams) -> list[ReshapeNode]:
    """Returns the nodes in order; shapes are those that the model has, inferred before or not."""
    nodes: list[ReshapeNode] = []
    # Before IR version 4 every constant had to be an input as well, and nobody replaces them.
    is_replaceable = model.ir_version >= _FIRST_IR_WITH_DEFAULTS
    replaceable = frozenset(given.name for given in model.graph.input if is_replaceable)
    _read_graph(model.graph, "", _Scope(ChainMap(), ChainMap(), ChainMap(), replaceable), params, nodes)
    return nodes


def list_shapes(graph: onnx.GraphProto) -> Iterator[tuple[str, onnx.TensorShapeProto]]:
    """Yields each tensor whose shape a graph says, with that shape."""
    for info in (*graph.input, *graph.value_info, *graph.output):
        if info.type.HasField("tensor_type") and info.type.tensor_type.HasField("shape"):
            yield info.name, info.type.tensor_type.shape


def is_reshape(node: onnx.NodeProto) -> bool:
    """Whether a node is ONNX's own Reshape."""
    return node.op_type == "Reshape" and node.domain in {"", "ai.onnx"} and len(node.output) > 0


def name_graph(graph: str, node: onnx.NodeProto, attribute: str) -> str:
    """Returns how a graph in a node is called, from outside in."""
    output = next(filter(None, node.output), node.name)  # an output that is not wanted has no name
    own = f"{output}.{attribute}"
    return f"{graph}/{own}" if graph else own


def _read_graph(graph: onnx.GraphProto, path: str, scope: _Scope, params: DimParams, nodes: list[ReshapeNode]) -> None:
    for name, shape in list_shapes(graph):
        scope.shapes[name] = params.read_shape((path, name), shape)
    for tensor in graph.initializer:
        if tensor.name not in scope.replaceable:
            scope.shapes[tensor.name] = tuple(tensor.dims)
            scope.values[tensor.name] = read_tensor(tensor)
    for node in graph.node:
        _read_node(node, path, scope, nodes)
        for attribute, inner in list_subgraphs(node):
            _read_graph(inner, name_graph(path, node, attribute), scope.nest(), params, nodes)


def _read_node(node: onnx.NodeProto, path: str, scope: _Scope, nodes: list[ReshapeNode]) -> None:
    operands = [Operand(scope.values.get(name), scope.shapes.get(name)) for name in node.input]
    output = node.output[0] if node.output else ""
    if output:
        scope.values[output] = compute_value(node, operands)
    if is_reshape(node):
        nodes.append(_describe_node(node, path, operands, scope))
        scope.makers[output] = len(nodes) - 1
    elif node.op_type in _KEEPS_SHAPE and node.domain in {"", "ai.onnx"} and node.input and output:
        maker = scope.makers.get(node.input[0])
        if maker is not None:
            scope.makers[output] = maker


def _describe_node(node: onnx.NodeProto, path: str, operands: Sequence[Operand], scope: _Scope) -> ReshapeNode:
    attributes = {attribute.name: attribute for attribute in node.attribute}
    data = operands[0].dims if operands else None
    target = _find_target(operands, attributes)
    special_zero = not ("allowzero" in attributes and attributes["allowzero"].i)
    return ReshapeNode(
        name=node.name,
        graph=path,
        output=node.output[0],
        data=None if data is None else tuple(data),
        target=target,
        copying=list_copying_items(target, data) if special_zero and target is not None else (),
        special_zero=special_zero,
        data_from=scope.makers.get(node.input[0]) if node.input else None,
    )


def _find_target(
    operands: Sequence[Operand], attributes: Mapping[str, onnx.AttributeProto]
) -> tuple[AnyDim, ...] | None:
    if len(operands) < 2:  # noqa: PLR2004 - until opset 5, the target is an attribute
        return tuple(attributes["shape"].ints) if "shape" in attributes else None
    value, dims = operands[1]
    if value is not None and not value.is_scalar:
        return value.items
    # Of a target that is computed otherwise, its length may be known.
    size = dims[0] if dims is not None and len(dims) == 1 else None
    return (None,) * size if isinstance(size, int) and size <= MAX_RANK else None
