"""Dims of ONNX models as the rules take them, and back.

Laws:

- A `dim_param` is a name as it stands, and nothing is concluded from what it says; but a product or a quotient is read
  as one where each of its names is a dim of the model by itself: `batch*heads`, and not `Add/Add_output_0_dim_1`.
- An unknown dim of a tensor has a name of its own, `TENSOR_dim_INDEX`, which is no name of the model's: so what the
  model computes from that dim is known to be that dim.
"""

from collections.abc import Iterable, Sequence
from typing import TypeAlias

import onnx

from tensor_reshape.rules.dims import ANY, AnyDim, Dim, Expression, Symbol, make_legal_expression, name_dim
from tensor_reshape.rules.limits import MAX_DIM
from tensor_reshape.rules.names import is_name, read_product

Key: TypeAlias = tuple[str, str]
"""The graph that a tensor is in, and its name."""

_NO_NAMES = frozenset({"", "?", "-1", "None", "unknown"})  # exporters write them where nothing is known


class DimParams:
    """The names of one model's dims."""

    def __init__(self, params: Iterable[str]) -> None:
        """Takes all that the model has."""
        self._params = frozenset(params)
        self._names: dict[str, str] = {}  # what the rules call a dim, by what the model calls it
        self._params_by_name: dict[str, str] = {}
        self._made = dict[tuple[Key, int], str]()

    def has(self, param: str) -> bool:
        """Whether a name was read before, or is one of the model's, or a product of such."""
        return param in self._params or param in self._names or self._read_product(param) is not None

    def read_shape(self, tensor: Key, shape: onnx.TensorShapeProto) -> tuple[AnyDim, ...]:
        """Returns the dims of a tensor, each a number or a name."""
        return self.name_dims(tensor, [self._read_dim(dim) for dim in shape.dim])

    def name_dims(self, tensor: Key, dims: Sequence[AnyDim]) -> tuple[AnyDim, ...]:
        """Returns the dims of a tensor with a name for each that is no number and has none."""
        return tuple(
            dim if isinstance(dim, int) or (dim is not None and dim.expression) else self._make_name(tensor, place)
            for place, dim in enumerate(dims)
        )

    def read_declared(self, shape: onnx.TensorShapeProto) -> tuple[AnyDim, ...]:
        """Returns the dims as the model says them, None where it says nothing."""
        return tuple(map(self._read_dim, shape.dim))

    def is_open(self, dim: AnyDim) -> bool:
        """Whether a dim is open: neither a number, nor a product of names that the model has."""
        if not isinstance(dim, Dim) or dim.expression is None:
            return not isinstance(dim, int)
        symbols = (*dim.expression.factors, *dim.expression.divisors)
        return any(self._params_by_name.get(symbol.name) not in self._params for symbol in symbols)

    def write_shape(self, dims: Sequence[AnyDim]) -> onnx.TensorShapeProto:
        """Returns the dims as a model has them; intervals have no place there."""
        shape = onnx.TensorShapeProto()
        for dim in dims:
            written = shape.dim.add()
            if isinstance(dim, int):
                written.dim_value = dim
            elif dim is not None and dim.expression is not None:
                written.dim_param = self._write(dim.expression)
        return shape

    def _write(self, expression: Expression) -> str:
        """Returns an expression as a model has it; nothing where one of its names is another in the model."""
        if expression.symbol is not None:
            return self._params_by_name.get(expression.symbol.name, expression.symbol.name)
        symbols = (*expression.factors, *expression.divisors)
        is_own = all(self._params_by_name.get(symbol.name, symbol.name) == symbol.name for symbol in symbols)
        return str(expression) if is_own else ""

    def _read_dim(self, dim: onnx.TensorShapeProto.Dimension) -> AnyDim:
        if dim.HasField("dim_value"):
            return dim.dim_value if 0 <= dim.dim_value <= MAX_DIM else None  # exporters write -1 for an unknown one
        param = dim.dim_param.strip()
        if param in _NO_NAMES:
            return None
        return self._read_product(param) or name_dim(self._name(param))

    def _read_product(self, param: str) -> AnyDim:
        product = read_product(param)
        # By names that were made, too: they come back in what was annotated.
        if product is None or not product.divisor:
            return None
        if not all(name in self._params or name in self._names for name in (*product.factors, *product.divisors)):
            return None
        above, below = ([Symbol(self._name(name)) for name in names] for names in (product.factors, product.divisors))
        expression = make_legal_expression(product.coefficient, above, product.divisor, below)
        return None if expression is None or not (above or below) else Dim(ANY, expression)

    def _name(self, param: str) -> str:
        """Returns what the rules call a dim: its own name where that is legal, else another."""
        if param not in self._names:
            name = param if is_name(param) else self._choose_name(f"dim_{len(self._names)}")
            self._names[param], self._params_by_name[name] = name, param
        return self._names[param]

    def _make_name(self, tensor: Key, place: int) -> AnyDim:
        if (tensor, place) not in self._made:
            # Of two graphs beside each other, each may have a tensor of this name.
            param = f"{tensor[1]}_dim_{place}"
            while param in self._params or param in self._names:
                param += "_"
            self._made[tensor, place] = self._name(param)
        return name_dim(self._made[tensor, place])

    def _choose_name(self, name: str) -> str:
        while name in self._params or name in self._params_by_name:
            name += "_"
        return name
