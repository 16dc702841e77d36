"""Asks OpenVINO: the output shape of a Reshape-1 node that it validates, and the output of one that it executes.

- Dims of the same name have the same symbol; a symbol of the output that is none of those is not told.
- A length of which bounds are known is what ShapeOf says of such data; an item of which nothing is known, which may be
  a -1 as well, is an input of the model.
- An attribute that the question leaves out is left out of the node.
"""

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import openvino
from openvino import opset1
from openvino.utils.node_factory import NodeFactory

from conformance.adapters.programs import Rejected, Unsupported, run
from conformance.adapters.questions import Dim, Json, Question, Unknown, write_answer

Node: TypeAlias = Any  # OpenVINO has no types
Symbols: TypeAlias = dict[str, Any]

_UNBOUNDED = -1
_REJECTIONS = (RuntimeError, TypeError, OverflowError)
"""Of a node's validation, and of the binding where a number is none of its integers."""


def answer(question: Question) -> Json:
    """Returns what the node says, and makes of the bytes where there are some."""
    _check_is_offered(question)
    symbols: Symbols = {}
    try:
        data = _make_parameter(question.data, symbols, question.data_type or "f32")
        target = _make_target(question.shape, symbols)
        attributes = {} if question.special_zero is None else {"special_zero": question.special_zero}
        node = NodeFactory("opset1").create("Reshape", [data, target], attributes)
        shape = node.output(0).get_partial_shape()
        payload = None if question.payload is None else _execute(node, data, question.payload)
    except _REJECTIONS as error:
        raise Rejected(_find_reason(str(error))) from error
    return write_answer(None if shape.rank.is_dynamic else [_read_dim(dim, symbols) for dim in shape], payload)


def _check_is_offered(question: Question) -> None:
    if question.operation != "reshape":
        raise Unsupported("Of the three operations it has Reshape-1 alone.")
    if question.expected is not None:
        raise Unsupported("No output shape can be expected of a node.")
    if question.strides is not None:
        raise Unsupported("The data of a node has no strides.")
    if any(isinstance(dim, Unknown) and dim.is_expression for dim in (*(question.data or ()), *(question.shape or ()))):
        raise Unsupported("Its symbols are no expressions.")


def _find_reason(message: str) -> str:
    """Returns the last line of what begins with files and nodes of OpenVINO's, or the first where there are none."""
    lines = [line.strip() for line in message.splitlines() if line.strip()] or [""]
    return lines[0] if "incompatible function arguments" in message else lines[-1]


def _make_parameter(dims: Sequence[Dim] | None, symbols: Symbols, data_type: str) -> Node:
    if dims is None:
        return openvino.op.Parameter(getattr(openvino.Type, data_type), openvino.PartialShape.dynamic())
    shape = openvino.PartialShape([_make_dim(dim, symbols) for dim in dims])
    return openvino.op.Parameter(getattr(openvino.Type, data_type), shape)


def _make_dim(dim: Dim, symbols: Symbols) -> Node:
    if isinstance(dim, int):
        return openvino.Dimension(dim)
    made = openvino.Dimension(dim.min, _UNBOUNDED if dim.max is None else dim.max)
    if dim.name is not None:
        made.set_symbol(symbols.setdefault(dim.name, openvino.Symbol()))
    return made


def _make_target(items: Sequence[Dim] | None, symbols: Symbols) -> Node:
    if items is None:
        return _make_input([Unknown()])
    literals = [item for item in items if isinstance(item, int)]
    if len(literals) == len(items):
        return openvino.op.Constant(openvino.Type.i64, openvino.Shape([len(literals)]), literals)
    return opset1.concat([_make_item(item, symbols) for item in items], 0)


def _make_item(item: Dim, symbols: Symbols) -> Node:
    if isinstance(item, int):
        return openvino.op.Constant(openvino.Type.i64, openvino.Shape([1]), [item])
    if item == Unknown():
        return _make_input([1])
    return opset1.shape_of(_make_parameter([item], symbols, "f32"))


def _make_input(dims: Sequence[Dim]) -> Node:
    """Returns items that are known when the model runs."""
    return _make_parameter(dims, {}, "i64")


def _read_dim(dim: Node, symbols: Symbols) -> Dim:
    if dim.is_static:
        return int(dim.get_length())
    low, high = max(dim.get_min_length(), 0), dim.get_max_length()  # it has -1 for bounds beyond its integers
    names = [name for name, symbol in symbols.items() if dim.has_symbol() and symbol == dim.get_symbol()]
    return Unknown(low, None if high == _UNBOUNDED else high, names[0] if names else None)


def _execute(node: Node, parameter: Node, data: bytes) -> bytes:
    """Returns the bytes of the output, as the reference implementation of the node writes them."""
    source = openvino.Tensor(parameter.get_element_type(), parameter.get_output_shape(0))
    if source.byte_size != len(data):
        raise Unsupported("A tensor has the bytes that its shape asks for.")
    _view_bytes(source)[:] = np.frombuffer(data, np.uint8)
    output = openvino.Tensor(node.output(0).get_element_type(), node.output(0).get_shape())
    if not openvino.Model([node], [parameter], "node").evaluate([output], [source]):
        raise Unsupported("It does not execute data of that type.")
    return _view_bytes(output).tobytes()


def _view_bytes(tensor: Node) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """Returns the bytes of a tensor, not copied."""
    flat: np.ndarray[Any, np.dtype[np.uint8]] = tensor.data.reshape(-1).view(np.uint8)
    return flat


if __name__ == "__main__":
    run({"openvino": answer})
