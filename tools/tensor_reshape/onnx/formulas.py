"""Reads and computes names of dims that are formulas of other names, such as `past + length` or `floor(h/2)`."""

import ast
import operator
from collections.abc import Callable, Mapping
from contextlib import suppress
from fractions import Fraction
from math import ceil, floor
from typing import TypeAlias

Formula: TypeAlias = ast.expr

_KINDS = (ast.BinOp, ast.UnaryOp, ast.Call, ast.Name, ast.Constant, ast.operator, ast.unaryop, ast.expr_context)
_MAX_CHARACTERS = 1000  # Python's parser is recursive
_MAX_POWER = 8


def read_formula(text: str) -> Formula | None:
    """Returns the syntax tree of a formula, and None for any other text or a single name."""
    with suppress(SyntaxError, ValueError, RecursionError, MemoryError):
        tree = ast.parse(text.strip(), mode="eval").body if len(text) <= _MAX_CHARACTERS else None
        if isinstance(tree, ast.BinOp | ast.Call) and all(isinstance(node, _KINDS) for node in ast.walk(tree)):
            return tree if list_words(tree) else None
    return None


def list_words(formula: Formula) -> set[str]:
    """Returns the names in a formula, without those of functions."""
    functions = {id(node.func) for node in ast.walk(formula) if isinstance(node, ast.Call)}
    return {node.id for node in ast.walk(formula) if isinstance(node, ast.Name) and id(node) not in functions}


def compute(formula: Formula, sizes: Mapping[str, int]) -> int | None:
    """Returns the value of a formula, or None if it is unknown, is not a whole number, or is below 0."""
    with suppress(ZeroDivisionError, TypeError, RecursionError):
        value = _compute(formula, sizes)
        return int(value) if value is not None and value >= 0 and value == int(value) else None
    return None


def _compute(node: ast.AST, sizes: Mapping[str, int]) -> Fraction | None:
    match node:
        case ast.Constant(value=int(number)):
            return Fraction(number)
        case ast.Name(id=name):
            return Fraction(sizes[name]) if name in sizes else None
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return _apply(operator.neg, [_compute(operand, sizes)])
        case ast.Call(func=ast.Name(id=name), args=arguments):
            return _apply(_FUNCTIONS.get(name), [_compute(argument, sizes) for argument in arguments])
        case ast.BinOp(left=left, op=symbol, right=right):
            return _apply(_OPERATORS.get(type(symbol)), [_compute(left, sizes), _compute(right, sizes)])
    return None


def _raise(base: Fraction, power: Fraction) -> Fraction | None:
    return base ** int(power) if power == int(power) and 0 <= power <= _MAX_POWER else None


def _apply(function: Callable[..., Fraction | int | None] | None, values: list[Fraction | None]) -> Fraction | None:
    if function is None or not values or None in values:
        return None
    result = function(*values)
    return None if result is None else Fraction(result)


_FUNCTIONS: Mapping[str, Callable[..., Fraction | int]] = {
    "floor": floor,
    "ceil": ceil,
    "ceiling": ceil,
    "Max": max,
    "max": max,
    "Min": min,
    "min": min,
    "Mod": operator.mod,
    "mod": operator.mod,
}
_OPERATORS: Mapping[type[ast.operator], Callable[[Fraction, Fraction], Fraction | int | None]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: _raise,
}
