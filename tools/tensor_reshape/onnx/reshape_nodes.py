"""Finds the Reshape nodes of an ONNX model, with the known parts of their input shapes and requested shapes.

Nodes are read in the order of the file, because a model executes its nodes in this order. A subgraph of a node (If,
Loop, Scan) can use the names of the graphs around it. A later value of a name replaces the earlier value, so a cycle in
a model does not cause an endless loop.

If a model computes an item of a requested shape from dims and the result is 0, the item copies an input dim. Invariant:
an item that is not listed in `copying` can be treated as a size in every run of the model. If such an item is 0 in a
run, either the dim that it copies is also 0, or the node fails. A node fails if the input and the output have different
numbers of elements, or if the -1 would require a division by 0.
"""

from collections import ChainMap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from itertools import combinations

import onnx

from tensor_reshape.onnx.dim_params import DimParams, Key
from tensor_reshape.onnx.models import list_subgraphs
from tensor_reshape.onnx.shape_values import Operand, ShapeValue, compute_value, read_tensor
from tensor_reshape.rules.dims import AnyDim, Dim
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

_MAX_NAMES = 8
"""The maximum number of names for which all combinations of zeros are tried.

With more names, each item that can be 0 is listed.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReshapeNode:
    """A Reshape node of a model, with the known parts of its shapes.

    Attributes:
        name: the name of the node, which may be empty.
        graph: the path of the graph that contains the node. It consists of the outer nodes and their attributes, for
            example `y.then_branch`, and is empty for the main graph.
        output: the name of the node's output.
        data: the known part of the input shape, or None if its rank is unknown.
        target: the known part of the requested shape, or None if its number of items is unknown.
        copying: the indices of the requested items that the model computes and that copy a dimension if they are 0. The
            query treats these items as unknown.
        special_zero: whether a 0 in the requested shape copies a dimension. This flag is the opposite of the attribute
            `allowzero`.
        data_from: the index of an earlier Reshape node whose output has the same shape as this node's input, or None.

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
    def key(self) -> Key:
        """The path of the node's graph, and the name of the node's output."""
        return self.graph, self.output

    @property
    def label(self) -> str:
        """The name of the node, or the name of its output if the node has no name."""
        return self.name or self.output

    @property
    def shape(self) -> tuple[AnyDim, ...] | None:
        """The requested shape for the query, with None for each item that may copy a dimension."""
        if self.target is None:
            return None
        return tuple(None if place in self.copying else item for place, item in enumerate(self.target))


@dataclass(slots=True)
class _Scope:
    """The known shapes and values of the tensors that a node can use, by name."""

    shapes: ChainMap[str, tuple[AnyDim, ...]]
    values: ChainMap[str, ShapeValue | None]
    # For each tensor that has the same shape as the output of a Reshape node, this mapping contains the node's index.
    makers: ChainMap[str, int]
    replaceable: frozenset[str]  # the names of graph inputs, whose constants are only default values

    def nest(self) -> "_Scope":
        return _Scope(self.shapes.new_child(), self.values.new_child(), self.makers.new_child(), self.replaceable)


def find_reshape_nodes(model: onnx.ModelProto, params: DimParams) -> list[ReshapeNode]:
    """Returns the Reshape nodes of a model in order, with the declared or inferred shapes."""
    nodes: list[ReshapeNode] = []
    # Before IR version 4, every constant also had to be listed as an input, so these inputs still count as constants.
    is_replaceable = model.ir_version >= _FIRST_IR_WITH_DEFAULTS
    replaceable = frozenset(given.name for given in model.graph.input if is_replaceable)
    _read_graph(model.graph, "", _Scope(ChainMap(), ChainMap(), ChainMap(), replaceable), params, nodes)
    return nodes


def list_shapes(graph: onnx.GraphProto) -> Iterator[tuple[str, onnx.TensorShapeProto]]:
    """Yields the name and the shape of each tensor of a graph for which the model contains a shape."""
    for info in (*graph.input, *graph.value_info, *graph.output):
        if info.type.HasField("tensor_type") and info.type.tensor_type.HasField("shape"):
            yield info.name, info.type.tensor_type.shape


def is_reshape(node: onnx.NodeProto) -> bool:
    """Whether a node has ONNX's own operator Reshape, and not an operator of the same name from another domain."""
    return node.op_type == "Reshape" and node.domain in {"", "ai.onnx"} and len(node.output) > 0


def name_graph(graph: str, outputs: Sequence[str], name: str, attribute: str) -> str:
    """Returns the path of a graph inside a node. The path begins with the outermost node and ends with this node."""
    output = next(filter(None, outputs), name)  # an optional output that is not used has an empty name
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
            _read_graph(inner, name_graph(path, node.output, node.name, attribute), scope.nest(), params, nodes)


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
    if len(operands) < 2:  # noqa: PLR2004 - before opset 5, the requested shape is an attribute
        return tuple(attributes["shape"].ints) if "shape" in attributes else None
    value, dims = operands[1]
    if value is not None and value.ndim == 1:
        return tuple(value)
    # Even if the items of the requested shape are unknown, their number may be known.
    size = dims[0] if dims is not None and len(dims) == 1 else None
    return (None,) * size if isinstance(size, int) and size <= MAX_RANK else None


def list_copying_items(target: Sequence[AnyDim], data: Sequence[AnyDim] | None) -> tuple[int, ...]:
    """Returns the indices of items that may copy a dim other than 0 in a successful run of the node."""
    suspects = {place for place, item in enumerate(target) if _list_names([item])}
    if data is None or None in data:
        return tuple(sorted(suspects))
    suspects = {place for place in suspects if not _list_names([target[place]]) <= _list_names(data[place : place + 1])}
    names = _list_names((*target, *data)) if suspects else frozenset[str]()
    if len(names) > _MAX_NAMES:
        return tuple(sorted(suspects))
    choices = (set(some) for count in range(1, len(names) + 1) for some in combinations(sorted(names), count))
    copying = {place for zeros in choices for place in _find_copies(target, data, zeros)}
    return tuple(sorted(suspects & copying))


def _list_names(dims: Iterable[AnyDim]) -> frozenset[str]:
    """Returns the names that can be 0 and would make one of the dims 0.

    Names in the divisor of a quotient are left out, because they cannot be 0.
    """
    return frozenset(
        factor.name
        for dim in dims
        if isinstance(dim, Dim) and dim.expression is not None
        for factor in dim.expression.factors
        if factor.bounds.min == 0
    )


def _find_copies(target: Sequence[AnyDim], data: Sequence[AnyDim], zeros: AbstractSet[str]) -> set[int]:
    """Returns the items that copy a dim other than 0 if exactly the names in `zeros` have the value 0.

    Returns an empty set if the node fails for these values.
    """
    copies = {place for place, item in enumerate(target) if _is_zero(item, zeros)}
    if not copies <= set(range(len(data))):
        return set()
    copied_zeros = {place for place in copies if _is_zero(data[place], zeros)}
    return set() if _fails(target, data, zeros, has_zero=bool(copied_zeros)) else copies - copied_zeros


def _fails(target: Sequence[AnyDim], data: Sequence[AnyDim], zeros: AbstractSet[str], *, has_zero: bool) -> bool:
    if -1 in target:
        return has_zero
    is_empty = any(_is_zero(dim, zeros) for dim in data)
    return has_zero != is_empty and not (is_empty and None in target)  # an unknown item may be 0


def _is_zero(dim: AnyDim, zeros: AbstractSet[str]) -> bool:
    return dim == 0 or not zeros.isdisjoint(_list_names([dim]))
