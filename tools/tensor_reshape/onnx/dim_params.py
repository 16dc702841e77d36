"""Converts dims of ONNX models to the form of the package `rules` and back. Computes formulas such as `floor(h/2)`.

Invariants:

- In ONNX, a `dim_param` is only a name. This module reads a name as a product or a quotient only if each name in it is
  also a dim of the model. For example, `batch*heads` is read as a product, but `Add/Add_output_0_dim_1` is a single
  name.
- An unknown dim of a tensor gets a new name of the form `TENSOR_dim_INDEX`. By this name, the check recognizes the dim
  when later nodes of the model compute with it.
"""

import ast
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from fractions import Fraction
from math import ceil, floor
from types import MappingProxyType
from typing import TypeAlias

import onnx

from tensor_reshape.rules.dims import ANY, AnyDim, Dim, Expression, Interval, Symbol, make_legal_expression, name_dim
from tensor_reshape.rules.limits import MAX_DIM
from tensor_reshape.rules.names import is_name, read_product

Key: TypeAlias = tuple[str, str]
"""The graph of a tensor, and the name of the tensor."""

DimsByKey: TypeAlias = Mapping[Key, Sequence[AnyDim]]

# Exporters write these names for unknown dims. Two dims with one of these names need not be equal.
_NO_NAMES = frozenset({"", "?", "-1", "None", "unknown"})

Formula: TypeAlias = ast.expr

_KINDS = (ast.BinOp, ast.UnaryOp, ast.Call, ast.Name, ast.Constant, ast.operator, ast.unaryop, ast.expr_context)
_MAX_CHARACTERS = 1000  # maximum length of a formula, because Python's parser is recursive
_MAX_POWER = 8


class DimParams:
    """The names of all dims of a model.

    Attributes:
        formulas: the formulas that `admit` has accepted as names.
    """

    def __init__(self, params: Iterable[str], bounds: Mapping[str, Interval] = MappingProxyType({})) -> None:
        """Stores the names of the model's dims, and the limits of those dims that have limits."""
        self._params, self._bounds = frozenset(params), bounds
        self._names: dict[str, str] = {}  # the name in the rules for each name in the model
        self._params_by_name: dict[str, str] = {}
        self._made = dict[tuple[Key, int], str]()
        self.formulas: set[str] = set()

    def has(self, param: str) -> bool:
        """Whether a text is a name of a dim in the model, a name that was read before, or a product of such names."""
        return param in self._params or param in self._names or self._read_product(param) is not None

    def read_shape(self, tensor: Key, shape: onnx.TensorShapeProto) -> tuple[AnyDim, ...]:
        """Returns the dims of a tensor in the form of the package `rules`.

        Each returned dim is a number or has a name.
        """
        return self.name_dims(tensor, [self._read_dim(dim) for dim in shape.dim])

    def name_dims(self, tensor: Key, dims: Sequence[AnyDim]) -> tuple[AnyDim, ...]:
        """Returns the dims of a tensor. A dim that has neither a number nor a name gets a new name."""
        return tuple(
            dim if isinstance(dim, int) or (dim is not None and dim.expression) else self._make_name(tensor, place)
            for place, dim in enumerate(dims)
        )

    def read_declared(self, shape: onnx.TensorShapeProto) -> tuple[AnyDim, ...]:
        """Returns the dims that the model declares, with None for each unknown dim."""
        return tuple(map(self._read_dim, shape.dim))

    def are_names(self, params: AbstractSet[str]) -> bool:
        """Whether all texts are names of dims in the model."""
        return params <= self._params

    def admit(self, param: str) -> bool:
        """Whether a text is a product of names and formulas that contain only names in the model.

        If so, these formulas count as names in the model from then on.
        """
        product = read_product(param)
        if product is None or not product.divisor or not (product.factors or product.divisors):
            return False
        found = {*product.factors, *product.divisors} - self._params
        for name in found:
            formula = read_formula(name)
            if formula is None or not is_name(name) or not list_words(formula) <= self._params:
                return False
        self._params |= found
        self.formulas |= found
        return True

    def is_open(self, dim: AnyDim) -> bool:
        """Whether a dim is unknown, which means that it is neither a number nor a product of names in the model."""
        if not isinstance(dim, Dim) or dim.expression is None:
            return not isinstance(dim, int)
        return any(self._params_by_name.get(symbol.name) not in self._params for symbol in dim.expression.symbols)

    def write_shape(self, dims: Sequence[AnyDim]) -> onnx.TensorShapeProto:
        """Returns dims in the form of an ONNX model. ONNX cannot express bounds of a dim, so the bounds are lost."""
        shape = onnx.TensorShapeProto()
        for dim in dims:
            written = shape.dim.add()
            if isinstance(dim, int):
                written.dim_value = dim
            elif dim is not None and dim.expression is not None:
                written.dim_param = self._write(dim.expression)
        return shape

    def _write(self, expression: Expression) -> str:
        """Returns an expression as the text of a `dim_param`.

        The text is empty if a name in the expression has another spelling in the model.
        """
        if expression.symbol is not None:
            return self._params_by_name.get(expression.symbol.name, expression.symbol.name)
        is_own = all(self._params_by_name.get(symbol.name, symbol.name) == symbol.name for symbol in expression.symbols)
        return str(expression) if is_own else ""

    def _read_dim(self, dim: onnx.TensorShapeProto.Dimension) -> AnyDim:
        if dim.HasField("dim_value"):
            # Some exporters write -1 for an unknown dim.
            return dim.dim_value if 0 <= dim.dim_value <= MAX_DIM else None
        param = dim.dim_param.strip()
        if param in _NO_NAMES:
            return None
        if param in self._bounds:
            return name_dim(self._name(param), *self._bounds[param])
        return self._read_product(param) or name_dim(self._name(param))

    def _read_product(self, param: str) -> AnyDim:
        product = read_product(param)
        # The names in the product may also be names that this class has created, because annotated models contain them.
        if product is None or not product.divisor:
            return None
        if not all(name in self._params or name in self._names for name in (*product.factors, *product.divisors)):
            return None
        named = product.map_factors(lambda name: Symbol(self._name(name), self._bounds.get(name, ANY)))
        expression = make_legal_expression(*named)
        return None if expression is None or not expression.symbols else Dim(ANY, expression)

    def _name(self, param: str) -> str:
        """Returns the name that the rules use for a named dim of the model.

        This is the name in the model if it is valid, and otherwise a new name.
        """
        if param not in self._names:
            name = param if is_name(param) else self._choose_name(f"dim_{len(self._names)}")
            self._names[param], self._params_by_name[name] = name, param
        return self._names[param]

    def _make_name(self, tensor: Key, place: int) -> AnyDim:
        if (tensor, place) not in self._made:
            # The generated name may already be in use, because two graphs may have tensors with the same name.
            param = f"{tensor[1]}_dim_{place}"
            while param in self._params or param in self._names:
                param += "_"
            self._made[tensor, place] = self._name(param)
        return name_dim(self._made[tensor, place])

    def _choose_name(self, name: str) -> str:
        while name in self._params or name in self._params_by_name:
            name += "_"
        return name


def read_formula(text: str) -> Formula | None:
    """Returns the syntax tree of a formula, or None if the text is a single name or not a formula."""
    with suppress(SyntaxError, ValueError, RecursionError, MemoryError):
        tree = ast.parse(text.strip(), mode="eval").body if len(text) <= _MAX_CHARACTERS else None
        if isinstance(tree, ast.BinOp | ast.Call) and all(isinstance(node, _KINDS) for node in ast.walk(tree)):
            return tree if list_words(tree) else None
    return None


def list_words(formula: Formula) -> set[str]:
    """Returns the names of dims in a formula, but not the names of functions."""
    functions = {id(node.func) for node in ast.walk(formula) if isinstance(node, ast.Call)}
    return {node.id for node in ast.walk(formula) if isinstance(node, ast.Name) and id(node) not in functions}


def compute(formula: Formula, sizes: Mapping[str, int]) -> int | None:
    """Returns the value of a formula for the given sizes, or None if it is unknown, not a whole number, or below 0."""
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
