"""Calculates with partially known dims, in the same way as a model that computes a target shape.

Invariants: the value None means an unknown number. A result is correct for all values of the names with which the model
can run. A name stands for the size of a dim, so its value is not negative.
"""

from tensor_reshape.rules.dims import ANY, AnyDim, Dim, Expression, Symbol, make_legal_expression, name_dim
from tensor_reshape.rules.names import is_name, write_factor


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
