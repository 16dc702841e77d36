"""Computes the integer values in a model that are known without running it.

Models compute the target of a Reshape from shapes, node by node. onnx's own inference computes these values as well,
but does not return them. This module supports the operators that exporters use for shapes. The result of any other
operator is unknown. A computed value is a scalar, or a list of at most MAX_ITEMS integers.

Invariants: the value None means an unknown number. A result is correct for all values of the names with which the model
can run. A name stands for the size of a dim, so its value is not negative.
"""

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import NamedTuple, TypeAlias

import onnx
from onnx import numpy_helper

from tensor_reshape.rules.dims import ANY, AnyDim, Dim, Expression, Symbol, make_legal_expression, name_dim
from tensor_reshape.rules.names import is_name, write_factor

MAX_ITEMS = 256
"""The maximum length of a list. A target has at most 64 items."""


class ShapeValue(NamedTuple):
    """A tensor of partially known integers.

    Attributes:
        items: the elements.
        is_scalar: whether the tensor is a scalar, which has one item. If it is not a scalar, its rank is 1.
    """

    items: tuple[AnyDim, ...]
    is_scalar: bool = False

    @property
    def numbers(self) -> tuple[int, ...] | None:
        """The items of the tensor if all of them are numbers, and otherwise None."""
        numbers = tuple(item for item in self.items if isinstance(item, int))
        return numbers if len(numbers) == len(self.items) else None


class Operand(NamedTuple):
    """An input tensor of a node.

    Attributes:
        value: the elements. The value is None if the elements are unknown.
        dims: the shape. The shape is None if the rank is unknown.
    """

    value: ShapeValue | None
    dims: Sequence[AnyDim] | None


Operands: TypeAlias = Sequence[Operand]
Attributes: TypeAlias = Mapping[str, onnx.AttributeProto]


def read_tensor(tensor: onnx.TensorProto) -> ShapeValue | None:
    """Returns the integers of a constant in the model.

    The result is None if the constant has too many items, has another type, or is stored in a separate file.
    """
    if len(tensor.dims) > 1 or not 0 <= prod(tensor.dims) <= MAX_ITEMS:
        return None
    if tensor.data_location == onnx.TensorProto.EXTERNAL or tensor.data_type not in _INTEGERS:
        return None
    try:
        array = numpy_helper.to_array(tensor)
    except (TypeError, ValueError):  # this error means that the stored constant has a wrong number of elements
        return None
    return ShapeValue(tuple(map(int, array.reshape(-1).tolist())), is_scalar=array.ndim == 0)


def compute_value(node: onnx.NodeProto, operands: Operands) -> ShapeValue | None:
    """Computes the value of a node's first output. The result is None if the value is unknown."""
    compute = _COMPUTE.get(node.op_type) if node.domain in {"", "ai.onnx"} else None
    if compute is None:
        return None
    value = compute(operands, {attribute.name: attribute for attribute in node.attribute})
    return None if value is None or len(value.items) > MAX_ITEMS else value


_INTEGERS = frozenset({onnx.TensorProto.INT32, onnx.TensorProto.INT64})
_INT32 = range(-(2**31), 2**31)
_INT64 = range(-(2**63), 2**63)


def _compute_constant(_operands: Operands, attributes: Attributes) -> ShapeValue | None:
    if "value" in attributes:
        return read_tensor(attributes["value"].t)
    if "value_int" in attributes:
        return ShapeValue((attributes["value_int"].i,), is_scalar=True)
    return ShapeValue(tuple(attributes["value_ints"].ints)) if "value_ints" in attributes else None


def _take_first(operands: Operands, _attributes: Attributes) -> ShapeValue | None:
    return operands[0].value if operands else None


def _compute_cast(operands: Operands, attributes: Attributes) -> ShapeValue | None:
    value, to = _find_value(operands, 0), attributes["to"].i if "to" in attributes else None
    if value is None or to not in _INTEGERS:
        return None
    # If a number does not fit into the type, the result is unknown, because Cast changes the number. For example,
    # exporters write the end of a Slice as 2^63 - 1.
    narrow = _INT32 if to == onnx.TensorProto.INT32 else _INT64
    return value._replace(items=tuple(_hold(item, narrow) for item in value.items))


def _compute_shape(operands: Operands, attributes: Attributes) -> ShapeValue | None:
    if not operands or operands[0].dims is None:
        return None
    start = attributes["start"].i if "start" in attributes else None
    end = attributes["end"].i if "end" in attributes else None
    return ShapeValue(tuple(operands[0].dims)[start:end])


def _compute_size(operands: Operands, _attributes: Attributes) -> ShapeValue | None:
    if not operands or operands[0].dims is None:
        return None
    return ShapeValue((_multiply_all(operands[0].dims),), is_scalar=True)


def _compute_gather(operands: Operands, _attributes: Attributes) -> ShapeValue | None:
    # The attribute `axis` is not read, because a list of dims has only one axis.
    data, indices = _find_value(operands, 0), _find_value(operands, 1)
    numbers = None if indices is None else indices.numbers
    if data is None or data.is_scalar or indices is None or numbers is None:
        return None
    size = len(data.items)
    if not all(-size <= number < size for number in numbers):
        return None
    return ShapeValue(tuple(data.items[number] for number in numbers), is_scalar=indices.is_scalar)


def _compute_concat(operands: Operands, _attributes: Attributes) -> ShapeValue | None:
    items: list[AnyDim] = []
    for operand in operands:
        if operand.value is not None and not operand.value.is_scalar:
            items += operand.value.items
        elif operand.dims is not None and len(operand.dims) == 1 and isinstance(operand.dims[0], int):
            # The values of the items are unknown, but the number of items is known.
            items += [None] * min(operand.dims[0], MAX_ITEMS + 1)
        else:
            return None
        if len(items) > MAX_ITEMS:
            return None
    return ShapeValue(tuple(items))


def _compute_slice(operands: Operands, attributes: Attributes) -> ShapeValue | None:
    data, starts, ends = (_find_value(operands, 0), *_find_slice_ends(operands, attributes))
    steps = _find_value(operands, 4)
    step = 1 if steps is None and len(operands) <= 4 else _find_number(steps)  # noqa: PLR2004 - data, starts, ends, axes, steps
    start, end = _find_number(starts), _find_number(ends)
    if data is None or data.is_scalar or start is None or end is None or not step:
        return None
    size = len(data.items)
    if step < 0 and start < -size:
        # If a slice goes backwards and starts before the first item, the ONNX standard moves its start to the first
        # item, but the reference evaluator of ONNX returns no items.
        return None
    # Python's slices work like those of ONNX, except that a negative step needs None for an end before the first item.
    return ShapeValue(data.items[start : None if step < 0 and end < -size else end : step])


def _find_slice_ends(operands: Operands, attributes: Attributes) -> tuple[ShapeValue | None, ShapeValue | None]:
    if "starts" in attributes and "ends" in attributes:  # before opset 10
        return ShapeValue(tuple(attributes["starts"].ints)), ShapeValue(tuple(attributes["ends"].ints))
    return _find_value(operands, 1), _find_value(operands, 2)


def _compute_unsqueeze(operands: Operands, attributes: Attributes) -> ShapeValue | None:
    value = _find_value(operands, 0)
    is_list = value is not None and value.is_scalar and _count_axes(operands, attributes) == 1
    return ShapeValue(value.items) if value is not None and is_list else None


def _compute_squeeze(operands: Operands, attributes: Attributes) -> ShapeValue | None:
    value = _find_value(operands, 0)
    is_given = "axes" in attributes or len(operands) > 1
    if value is None or len(value.items) != 1 or (is_given and _count_axes(operands, attributes) != 1):
        return None
    return ShapeValue(value.items, is_scalar=True)


def _count_axes(operands: Operands, attributes: Attributes) -> int | None:
    """Returns the number of axes, which are an attribute of the node before opset 13.

    The result is None if the number is unknown.
    """
    if "axes" in attributes:
        return len(attributes["axes"].ints)
    axes = _find_value(operands, 1)
    return None if axes is None else len(axes.items)


def _compute_reshape(operands: Operands, attributes: Attributes) -> ShapeValue | None:
    value, target = _find_value(operands, 0), _find_value(operands, 1)
    rank = None if target is None else len(target.items)
    if "shape" in attributes:
        rank = len(attributes["shape"].ints)
    return None if value is None or rank is None or rank > 1 else ShapeValue(value.items, is_scalar=rank == 0)


def _compute_filled(operands: Operands, attributes: Attributes) -> ShapeValue | None:
    sizes = _find_value(operands, 0)
    filling = _find_number(read_tensor(attributes["value"].t)) if "value" in attributes else None
    size = _find_number(sizes)
    if filling is None or size is None or not 0 <= size <= MAX_ITEMS:
        return None
    return ShapeValue((filling,) * size)


def _compute_product(operands: Operands, attributes: Attributes) -> ShapeValue | None:
    value = _find_value(operands, 0)
    keeps = attributes["keepdims"].i if "keepdims" in attributes else 1
    # With the attribute noop_with_empty_axes, a Reduce node without axes multiplies nothing.
    if (
        value is None
        or value.is_scalar
        or ("noop_with_empty_axes" in attributes and attributes["noop_with_empty_axes"].i)
    ):
        return None
    return ShapeValue((_multiply_all(value.items),), is_scalar=not keeps)


def _compute_each(calculate: Callable[[AnyDim, AnyDim], AnyDim]) -> Callable[[Operands, Attributes], ShapeValue | None]:
    def compute(operands: Operands, _attributes: Attributes) -> ShapeValue | None:
        one, other = _find_value(operands, 0), _find_value(operands, 1)
        if one is None or other is None:
            return None
        size = max(len(one.items), len(other.items))
        if not {len(one.items), len(other.items)} <= {1, size}:
            return None
        pairs = zip(_stretch(one.items, size), _stretch(other.items, size), strict=True)
        items = tuple(_hold(calculate(*pair), _INT64) for pair in pairs)
        return ShapeValue(items, is_scalar=one.is_scalar and other.is_scalar)

    return compute


def _stretch(items: tuple[AnyDim, ...], size: int) -> tuple[AnyDim, ...]:
    return items if len(items) == size else items * size


def _multiply_all(dims: Sequence[AnyDim]) -> AnyDim:
    product: AnyDim = 1
    for dim in dims:
        product = multiply(product, dim)
    return _hold(product, _INT64)


def _hold(item: AnyDim, numbers: range) -> AnyDim:
    """Returns the item if it fits into the type, and otherwise None."""
    return None if isinstance(item, int) and item not in numbers else item


def _find_value(operands: Operands, place: int) -> ShapeValue | None:
    return operands[place].value if place < len(operands) else None


def _find_number(value: ShapeValue | None) -> int | None:
    numbers = None if value is None else value.numbers
    return numbers[0] if numbers is not None and len(numbers) == 1 else None


def multiply(one: AnyDim, other: AnyDim) -> AnyDim:
    """Returns the product."""
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
    """Returns the sum. If an operand has names, the whole sum becomes one new name."""
    if isinstance(one, int) and isinstance(other, int):
        return one + other
    left, right = _express(one), _express(other)
    if left is None or right is None:
        return one if other == 0 else other if one == 0 else None
    # The sum of a named dim and a number is at least this number. The lower bound matters, because an item of a
    # requested shape that is above 0 copies no dim.
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
    """Returns the expression of a dim.

    The result is None if the dim has no expression, or is a number that cannot be a coefficient.
    """
    if isinstance(dim, int):
        return make_legal_expression(dim, ()) if dim > 0 else None
    return None if dim is None else dim.expression


def _divide_exactly(one: Expression, other: Expression) -> AnyDim:
    """Returns the quotient if, for all values of the names, it has no remainder; otherwise None."""
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
    """Returns the text of an expression as a part of a quotient."""
    if not expression.factors:
        return str(expression.coefficient)
    return write_factor(expression.symbol.name) if expression.symbol is not None else f"({expression})"


def _describe(dim: AnyDim, expression: Expression) -> str:
    """Returns the text of an operand of a sum.

    The operand needs no parentheses, because a sum has the lowest precedence of all operands.
    """
    if isinstance(dim, int):
        return str(dim)
    return expression.symbol.name if isinstance(expression.symbol, Symbol) else str(expression)


_COMPUTE: Mapping[str, Callable[[Operands, Attributes], ShapeValue | None]] = {
    "Add": _compute_each(add),
    "Cast": _compute_cast,
    "Concat": _compute_concat,
    "Constant": _compute_constant,
    "ConstantOfShape": _compute_filled,
    "Div": _compute_each(divide),
    "Gather": _compute_gather,
    "Identity": _take_first,
    "Mul": _compute_each(multiply),
    "ReduceProd": _compute_product,
    "Reshape": _compute_reshape,
    "Shape": _compute_shape,
    "Size": _compute_size,
    "Slice": _compute_slice,
    "Squeeze": _compute_squeeze,
    "Sub": _compute_each(subtract),
    "Unsqueeze": _compute_unsqueeze,
}
