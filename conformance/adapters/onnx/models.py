"""Models of one Reshape node, made of the questions of the kit.

- `special_zero` is what `allowzero` is not.
- The target of Reshape-1 is an initializer, where it is all numbers. That of DynamicReshape is not part of the model:
  it is computed of what is given, so inference knows of it what it propagates through Shape and Concat, or it is fed.
- The inputs of a model have ranks. So data of which not even that is known is what another node makes of an input.
- A dim is a number, a name, or nothing is said of it: ONNX has no bounds and no products of names, and what has some is
  not asked. A name with other operators, such as "seq + past", is one name as a whole, for ONNX as for the kit.
- DynamicReshape is asked where ranks and types are those of the graph operations: ONNX has no such limits to break.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from onnx import ModelProto, NodeProto, TensorProto, ValueInfoProto, helper

from conformance.adapters.programs import Unsupported
from conformance.adapters.questions import Dim, Question, Unknown, are_known

DATA, SHAPE, OUTPUT = "data", "shape", "reshaped"
OPSET = 25

_ELEMENT_TYPES = {
    "boolean": TensorProto.BOOL,
    "u2": TensorProto.UINT2,
    "u4": TensorProto.UINT4,
    "i4": TensorProto.INT4,
    "f4e2m1": TensorProto.FLOAT4E2M1,
    "u8": TensorProto.UINT8,
    "i8": TensorProto.INT8,
    "u16": TensorProto.UINT16,
    "i16": TensorProto.INT16,
    "u32": TensorProto.UINT32,
    "i32": TensorProto.INT32,
    "u64": TensorProto.UINT64,
    "i64": TensorProto.INT64,
    "f8e4m3": TensorProto.FLOAT8E4M3FN,
    "f8e5m2": TensorProto.FLOAT8E5M2,
    "f8e8m0": TensorProto.FLOAT8E8M0,
    "f16": TensorProto.FLOAT16,
    "bf16": TensorProto.BFLOAT16,
    "f32": TensorProto.FLOAT,
    "f64": TensorProto.DOUBLE,
}
_ANY_TYPE = "i8"
"""Of data whose type the question leaves open: the least that is to be allocated."""
_INT64 = range(-(2**63), 2**63)
_GRAPH_TYPES = (None, "f32", "f16", "bf16")
_MAX_GRAPH_RANK = 12


@dataclass
class _Graph:
    """What the model of a question is made of."""

    inputs: list[ValueInfoProto] = field(default_factory=list)
    initializers: list[TensorProto] = field(default_factory=list)
    nodes: list[NodeProto] = field(default_factory=list)


def find_element_type(question: Question) -> int:
    """Returns the ONNX element type of a question's data."""
    name = question.data_type or _ANY_TYPE
    if name not in _ELEMENT_TYPES:
        raise Unsupported("ONNX has no such element type.")
    return _ELEMENT_TYPES[name]


def make_inferred_model(question: Question) -> ModelProto:
    """Returns a model whose target is known or computed, for inference.

    Raises:
        Unsupported: ONNX has no way to say what the question does.
    """
    graph = _Graph()
    if question.operation != "dynamic_reshape" and are_known(question.shape):
        graph.initializers.append(_make_items(SHAPE, question.shape))
    else:
        _compute_target(graph, question.shape)
    return _make_model(question, graph)


def make_executed_model(question: Question) -> ModelProto:
    """Returns a model to be executed; its inputs are the data and, of DynamicReshape, the target.

    Raises:
        Unsupported: ONNX has no way to say what the question does, or something in it is not known.
    """
    if not question.is_known:
        raise Unsupported("What is executed has no unknown dims.")
    items = _make_items(SHAPE, question.shape)
    if question.operation != "dynamic_reshape":
        return _make_model(question, _Graph(initializers=[items]))
    return _make_model(question, _Graph([helper.make_tensor_value_info(SHAPE, TensorProto.INT64, items.dims)]))


def list_numbers(dims: Iterable[Dim] | None) -> list[int]:
    """Returns the dims that are numbers: all of what is executed."""
    return [dim for dim in dims or () if isinstance(dim, int)]


def list_feeds(model: ModelProto) -> list[str]:
    """Returns the names of a model's inputs."""
    return [value.name for value in model.graph.input]


def _make_model(question: Question, graph: _Graph) -> ModelProto:
    if question.special_zero is None:
        raise Unsupported("ONNX's allowzero has a default.")
    if question.operation == "static_reshape":
        raise Unsupported("Of the three operations it has those whose target is a tensor.")
    if _is_beyond_graph_operations(question):
        raise Unsupported("ONNX bounds no rank and no element type, as the graph operations do.")
    if question.strides is not None:
        raise Unsupported("A tensor of ONNX has no strides.")
    element_type = find_element_type(question)
    node = helper.make_node("Reshape", [DATA, SHAPE], [OUTPUT], allowzero=int(not question.special_zero))
    _add_data(graph, question.data, element_type)
    made = helper.make_graph(
        [*graph.nodes, node],
        "question",
        graph.inputs,
        [_declare(OUTPUT, question.expected, element_type)],
        graph.initializers,
    )
    return helper.make_model(made, opset_imports=[helper.make_opsetid("", OPSET)])


def _is_beyond_graph_operations(question: Question) -> bool:
    ranks = [len(dims) for dims in (question.data, question.shape) if dims is not None]
    is_beyond = max(ranks, default=0) > _MAX_GRAPH_RANK or question.data_type not in _GRAPH_TYPES
    return question.operation == "dynamic_reshape" and is_beyond


def _add_data(graph: _Graph, dims: Sequence[Dim] | None, element_type: int) -> None:
    if dims is not None:
        graph.inputs.append(_declare(DATA, dims, element_type))
        return
    graph.inputs.append(_declare("elements", [Unknown()], element_type))
    graph.inputs.append(_declare("dims", [Unknown()], TensorProto.INT64))
    graph.nodes.append(helper.make_node("Reshape", ["elements", "dims"], [DATA]))


def _compute_target(graph: _Graph, items: Sequence[Dim] | None) -> None:
    """Adds what computes the target: numbers, lengths of other tensors, and inputs of which nothing is known."""
    if items is None:
        graph.inputs.append(_declare(SHAPE, [Unknown()], TensorProto.INT64))
        return
    names = [f"item_{index}" for index in range(len(items))]
    for name, item in zip(names, items, strict=True):
        _compute_item(graph, name, item)
    if items:
        graph.nodes.append(helper.make_node("Concat", names, [SHAPE], axis=0))
    else:
        graph.initializers.append(_make_items(SHAPE, ()))


def _compute_item(graph: _Graph, name: str, item: Dim) -> None:
    if isinstance(item, int):
        graph.initializers.append(_make_items(name, [item]))
    elif item == Unknown():
        graph.inputs.append(helper.make_tensor_value_info(name, TensorProto.INT64, [1]))
    else:
        graph.inputs.append(_declare(f"of_{name}", [item], TensorProto.INT8))
        graph.nodes.append(helper.make_node("Shape", [f"of_{name}"], [name]))


def _make_items(name: str, items: Iterable[Dim] | None) -> TensorProto:
    numbers = list_numbers(items)
    if any(number not in _INT64 for number in numbers):
        raise Unsupported("An item of ONNX has 64 bits.")
    return helper.make_tensor(name, TensorProto.INT64, [len(numbers)], numbers)


def _declare(name: str, dims: Sequence[Dim] | None, element_type: int) -> ValueInfoProto:
    shape = None if dims is None else [_make_dim(dim) for dim in dims]
    return helper.make_tensor_value_info(name, element_type, shape)


def _make_dim(dim: Dim) -> int | str | None:
    if isinstance(dim, int):
        if dim not in _INT64:
            raise Unsupported("A dim of ONNX has 64 bits.")
        return dim
    if (dim.min, dim.max) != (0, None):
        raise Unsupported("A dim of ONNX has no bounds.")
    if dim.name is not None and re.search(r"[*/^]", dim.name):
        raise Unsupported("A name of ONNX is no product of names.")
    return dim.name
