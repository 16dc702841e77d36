"""Computes those integer values in a model that are known without running the model.

Models often compute the requested shape of a Reshape from other shapes, with several nodes. onnx's own inference also
computes these values, but does not return them. This module supports the operators that exporters use for such
computations. The result of any other operator is unknown. A computed value is a scalar, or a list of at most MAX_ITEMS
dims.

Invariants: None in a value means an unknown number. A result is correct for all values of the names with which the
    model can run. A name stands for the size of a dim, so its value is not negative.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import reduce
from math import prod
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import onnx
from onnx import numpy_helper

from tensor_reshape.onnx.models import MAX_ELEMENTS
from tensor_reshape.rules.dims import ANY, AnyDim, Dim, Expression, Symbol, make_legal_expression, name_dim
from tensor_reshape.rules.names import is_name, write_factor

MAX_ITEMS = 256
"""The maximum length of a list. A target has at most 64 items."""

ShapeValue: TypeAlias = np.ndarray[Any, Any]
"""A scalar or a list of dims, which are objects of Python."""

Attributes: TypeAlias = Mapping[str, onnx.AttributeProto]

_INTEGERS: Mapping[int, "np.iinfo[Any]"] = {
    onnx.TensorProto.INT32: np.iinfo(np.int32),
    onnx.TensorProto.INT64: np.iinfo(np.int64),
}
_CONSTANTS = (("value_int", "i", np.int64), ("value_ints", "ints", np.int64), ("value_float", "f", np.float32))
_STARTS, _ENDS, _STEPS = 1, 2, 4  # the indices of three inputs of the operator Slice


class Operand(NamedTuple):
    """An input tensor of a node.

    Attributes:
        value: the elements of the tensor, or None if they are unknown.
        dims: the shape of the tensor, or None if its rank is unknown.
    """

    value: ShapeValue | None
    dims: Sequence[AnyDim] | None


class _UnknownError(Exception):
    """The value of an input is unknown, or the node is malformed."""


class _Call(NamedTuple):
    """The inputs and the attributes of a node."""

    operands: Sequence[Operand]
    attributes: Attributes

    def read(self, place: int = 0) -> ShapeValue:
        """Returns the value of an input. Raises _UnknownError if it is unknown."""
        value = self.operands[place].value
        if value is None:
            raise _UnknownError
        return value

    def read_list(self) -> ShapeValue:
        """Returns the value of the first input. Raises _UnknownError if it is not a list."""
        value = self.read()
        if value.ndim != 1:
            raise _UnknownError
        return value

    def read_number(self, place: int, name: str = "") -> int:
        """Returns a number from an input of the node.

        In older versions of an operator, the number comes from an attribute instead.
        """
        value = self.attributes[name].ints if name in self.attributes else [*self.read(place).flat]
        if len(value) != 1 or not isinstance(value[0], int):
            raise _UnknownError
        return value[0]

    def get(self, name: str, default: int | None = None) -> int | None:
        """Returns the value of a number attribute, or the default if the node does not have the attribute."""
        return self.attributes[name].i if name in self.attributes else default

    def has_one_axis(self) -> bool:
        """Whether the node has exactly one axis. Before opset 13, the axes are an attribute instead of an input."""
        return len(self.attributes["axes"].ints if "axes" in self.attributes else self.read(1)) == 1


def make_value(dims: Iterable[AnyDim]) -> ShapeValue:
    """Returns a list of dims as an array. A `Dim` is one element, although it is a tuple."""
    return np.fromiter(dims, object)


def read_array(tensor: onnx.TensorProto) -> np.ndarray[Any, Any] | None:
    """Returns the elements of a constant, or None if there are too many or if they are in a separate file."""
    if tensor.data_location == onnx.TensorProto.EXTERNAL or not 0 <= prod(tensor.dims) <= MAX_ELEMENTS:
        return None
    try:
        return numpy_helper.to_array(tensor)
    except (KeyError, TypeError, ValueError):  # the type is unknown, or the number of elements is wrong
        return None


def read_constant(attributes: Attributes) -> np.ndarray[Any, Any] | None:
    """Returns the elements of a Constant node, or None if they are unknown."""
    if "value" in attributes:
        return read_array(attributes["value"].t)
    for name, part, kind in _CONSTANTS:
        if name in attributes:  # the type of an attribute may be missing or wrong
            return np.array(getattr(attributes[name], part), kind)
    return None


def read_tensor(tensor: onnx.TensorProto) -> ShapeValue | None:
    """Returns the integers of a constant, or None if it has too many items or does not contain integers."""
    if tensor.data_type not in _INTEGERS or prod(tensor.dims) > MAX_ITEMS:  # decoding a large weight takes time
        return None
    return _make_integers(read_array(tensor))


def _make_integers(array: np.ndarray[Any, Any] | None) -> ShapeValue | None:
    is_value = array is not None and array.dtype in (np.int32, np.int64) and array.ndim <= 1 and array.size <= MAX_ITEMS
    return array.astype(object) if array is not None and is_value else None


def compute_value(node: onnx.NodeProto, operands: Sequence[Operand]) -> ShapeValue | None:
    """Computes the value of a node's first output. The result is None if the value is unknown."""
    compute = _COMPUTE.get(node.op_type) if node.domain in {"", "ai.onnx"} else None
    if compute is None:
        return None
    try:
        value = compute(_Call(operands, {attribute.name: attribute for attribute in node.attribute}))
    except (_UnknownError, IndexError, KeyError, TypeError, ValueError):
        return None
    return None if value is None or value.size > MAX_ITEMS else value


def _cast(call: _Call) -> ShapeValue:
    # If a number does not fit into the new type, the result is unknown, because Cast changes such a number. An example
    # is 2^63 - 1, which exporters write as the end of a Slice.
    value, limits = call.read(), _INTEGERS[call.attributes["to"].i]
    return make_value(_hold(item, limits) for item in value.flat).reshape(value.shape)


def _concat(call: _Call) -> ShapeValue:
    items: list[AnyDim] = []
    for value, dims in call.operands:
        # Although the values of the items are unknown, their number may be known.
        size = dims[0] if dims is not None and len(dims) == 1 else None
        if value is not None and value.ndim == 1:
            items.extend(value)
        elif isinstance(size, int):
            items += [None] * min(size, MAX_ITEMS + 1)
        else:
            raise _UnknownError
        if len(items) > MAX_ITEMS:
            raise _UnknownError
    return make_value(items)


def _fill(call: _Call) -> ShapeValue:
    filling, size = read_tensor(call.attributes["value"].t), call.read_number(0)
    if filling is None or not 0 <= size <= MAX_ITEMS:
        raise _UnknownError
    return make_value(filling.item() for _ in range(size))


def _gather(call: _Call) -> ShapeValue:
    # The attribute `axis` is not read, because a list of dims has only one axis.
    indices = call.read(1)
    return call.read_list().take(indices.ravel().astype(np.int64)).reshape(indices.shape)


def _reduce_product(call: _Call) -> ShapeValue:
    value = call.read_list()
    if call.get("noop_with_empty_axes"):  # with this attribute, a node without axes returns its input
        raise _UnknownError
    return make_value([_multiply_all(value)]).reshape([1] if call.get("keepdims", 1) else [])


def _reshape(call: _Call) -> ShapeValue:
    rank = len(call.attributes["shape"].ints if "shape" in call.attributes else call.read(1))
    return call.read().reshape([-1] * rank)


def _shape(call: _Call) -> ShapeValue | None:
    dims = call.operands[0].dims
    return None if dims is None else make_value(dims[call.get("start") : call.get("end")])


def _size(call: _Call) -> ShapeValue:
    dims = call.operands[0].dims
    return make_value([None if dims is None else _multiply_all(dims)]).reshape(())


def _slice(call: _Call) -> ShapeValue:
    data, start, end = call.read_list(), call.read_number(_STARTS, "starts"), call.read_number(_ENDS, "ends")
    step = call.read_number(_STEPS) if len(call.operands) > _STEPS else 1
    if step < 0 and start < -data.size:
        # The slice goes backwards and starts before the first item. In this case, the ONNX standard moves the start to
        # the first item, but onnx's reference implementation returns no items. The result is therefore unknown.
        raise _UnknownError
    # Python's slices work like those of ONNX, with one exception. If the step is negative and the end is before the
    # first item, Python needs None as the end.
    return data[start : None if step < 0 and end < -data.size else end : step]


def _squeeze(call: _Call) -> ShapeValue | None:
    is_given = "axes" in call.attributes or len(call.operands) > 1
    return None if is_given and not call.has_one_axis() else call.read().reshape(())


def _unsqueeze(call: _Call) -> ShapeValue | None:
    return call.read().reshape(1) if call.read().ndim == 0 and call.has_one_axis() else None


def _compute_each(calculate: Callable[[AnyDim, AnyDim], AnyDim]) -> Callable[[_Call], ShapeValue]:
    apply = np.frompyfunc(lambda one, other: _hold(calculate(one, other)), 2, 1)

    def compute(call: _Call) -> ShapeValue:
        one, other = call.read(0), call.read(1)
        output: ShapeValue = np.empty(np.broadcast_shapes(one.shape, other.shape), object)
        apply(one, other, out=output)
        return output

    return compute


def _multiply_all(dims: Iterable[AnyDim]) -> AnyDim:
    product: AnyDim = 1
    return _hold(reduce(multiply, dims, product))


def _hold(item: AnyDim, limits: "np.iinfo[Any]" = _INTEGERS[onnx.TensorProto.INT64]) -> AnyDim:
    """Returns the item, or None if it is a number that does not fit into the integer type."""
    return None if isinstance(item, int) and not limits.min <= item <= limits.max else item


def multiply(one: AnyDim, other: AnyDim) -> AnyDim:
    """Returns the product of two dims, or None if it is unknown."""
    if isinstance(one, int) and isinstance(other, int):
        return one * other
    left, right = _express(one), _express(other)
    if left is None or right is None:
        return 0 if 0 in (one, other) else None
    return _make(make_legal_expression(*left.multiply(right)))


def divide(one: AnyDim, other: AnyDim) -> AnyDim:
    """Returns the quotient of an integer Div, rounded toward 0.

    Dims are not negative, so this rounds the quotient down.
    """
    if isinstance(one, int) and isinstance(other, int):
        return None if other == 0 else abs(one) // abs(other) * (1 if (one < 0) == (other < 0) else -1)
    left, right = _express(one), _express(other)
    if left is None or right is None:
        return None
    return _divide_exactly(left, right) or _name(f"floor({_write(left)}/{_write(right)})")


def add(one: AnyDim, other: AnyDim) -> AnyDim:
    """Returns the sum of two dims, or None if it is unknown. If a dim has names, the whole sum becomes one new name."""
    if isinstance(one, int) and isinstance(other, int):
        return one + other
    left, right = _express(one), _express(other)
    if left is None or right is None:
        return one if other == 0 else other if one == 0 else None
    # The sum of a named dim and a number is at least this number. This lower bound is useful, because an item of a
    # requested shape that is certainly above 0 does not copy a dim.
    low = sum(dim for dim in (one, other) if isinstance(dim, int))
    texts = [_describe(one, left), _describe(other, right)]
    if isinstance(one, int):
        texts.reverse()  # a number is written last, as in the formulas of onnx-shape-inference
    return _name(" + ".join(texts), low)


def subtract(one: AnyDim, other: AnyDim) -> AnyDim:
    """Returns the difference of two numbers.

    If an operand is not a number, the difference is unknown, because it may be negative.
    """
    if isinstance(one, int) and isinstance(other, int):
        return one - other
    return one if other == 0 else None


def _express(dim: AnyDim) -> Expression | None:
    """Returns the expression of a dim, or None if it has none.

    A positive number is an expression without names.
    """
    if isinstance(dim, int):
        return make_legal_expression(dim, ()) if dim > 0 else None
    return None if dim is None else dim.expression


def _divide_exactly(one: Expression, other: Expression) -> AnyDim:
    """Returns the quotient if the division has no remainder for any values of the names, and otherwise None."""
    if other.divisor != 1 or other.divisors or one.divisor != 1 or one.divisors or one.coefficient % other.coefficient:
        return None
    factors = list(one.factors)
    for factor in other.factors:
        if factor not in factors:
            return None
        factors.remove(factor)
    coefficient = one.coefficient // other.coefficient
    return _make(make_legal_expression(coefficient, factors)) if factors else coefficient


def _make(expression: Expression | None) -> AnyDim:
    return None if expression is None else Dim(ANY, expression)


def _name(name: str, low: int = 0) -> AnyDim:
    return name_dim(name, low) if is_name(name) else None


def _write(expression: Expression) -> str:
    """Returns the text of an expression, in parentheses if a quotient needs them."""
    if not expression.factors:
        return str(expression.coefficient)
    return write_factor(expression.symbol.name) if expression.symbol is not None else f"({expression})"


def _describe(dim: AnyDim, expression: Expression) -> str:
    """Returns the text of a dim as an operand of a sum.

    It needs no parentheses, because every operator in it binds more tightly than the sum.
    """
    if isinstance(dim, int):
        return str(dim)
    return expression.symbol.name if isinstance(expression.symbol, Symbol) else str(expression)


_COMPUTE: Mapping[str, Callable[[_Call], ShapeValue | None]] = {
    "Add": _compute_each(add),
    "Cast": _cast,
    "Concat": _concat,
    "Constant": lambda call: _make_integers(read_constant(call.attributes)),
    "ConstantOfShape": _fill,
    "Div": _compute_each(divide),
    "Gather": _gather,
    "Identity": _Call.read,
    "Mul": _compute_each(multiply),
    "ReduceProd": _reduce_product,
    "Reshape": _reshape,
    "Shape": _shape,
    "Size": _size,
    "Slice": _slice,
    "Squeeze": _squeeze,
    "Sub": _compute_each(subtract),
    "Unsqueeze": _unsqueeze,
}
