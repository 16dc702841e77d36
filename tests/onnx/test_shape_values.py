"""The known integers in the computation of a target shape, and arithmetic of partially known dims."""

import re
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from itertools import product
from math import prod
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper, parser
from onnx.reference import ReferenceEvaluator

from hypothesis_profiles import examples
from tensor_reshape.onnx.shape_values import (
    MAX_ITEMS,
    Operand,
    add,
    compute_value,
    divide,
    make_value,
    multiply,
    read_tensor,
    subtract,
)
from tensor_reshape.rules.dims import AnyDim, Dim, Expression, format_dim, format_dims, name_dim
from tensor_reshape.rules.notation import parse_dim

X = Operand(None, (parse_dim("N"), 3, parse_dim("M")))

Calculate = Callable[[AnyDim, AnyDim], AnyDim]

# two dims and the result
ARITHMETIC: dict[Calculate, dict[tuple[str, str], str]] = {
    multiply: {
        ("3", "4"): "12",
        ("N", "4"): "4*N",
        ("N", "0"): "0",
        ("?", "0"): "0",
        ("N", "-1"): "?",
        ("N", "?"): "?",
        ("N", "M"): "M*N",
    },
    divide: {
        ("7", "2"): "3",
        ("-7", "2"): "-3",
        ("7", "0"): "?",
        ("4*N", "2"): "2*N",
        ("4*N", "N"): "4",
        ("M*N", "N"): "M",
        ("N", "8"): "floor(N/8)",
        ("N", "M"): "floor(N/M)",
        ("2*N", "4"): "floor((2*N)/4)",
        ("a + b", "2"): "floor((a + b)/2)",
        ("?", "2"): "?",
    },
    add: {
        ("3", "4"): "7",
        ("N", "1"): "N + 1",
        ("seq", "past"): "seq + past",
        ("4*N", "1"): "4*N + 1",
        ("N", "0"): "N",
        ("N", "-1"): "?",
        ("?", "1"): "?",
    },
    subtract: {
        ("7", "3"): "4",
        ("N", "0"): "N",
        ("N", "1"): "?",
    },
}


def know(*items: int | str | None) -> Operand:
    """Returns an operand with these elements."""
    dims = [parse_dim(item) if isinstance(item, str) else item for item in items]
    return Operand(make_value(dims), (len(dims),))


def know_scalar(item: int | str) -> Operand:
    dim: AnyDim = parse_dim(item) if isinstance(item, str) else item
    return Operand(make_value([dim]).reshape(()), ())


def compute(operator: str, *operands: Operand, domain: str = "", **attributes: Any) -> str:
    node = helper.make_node(
        operator, [f"i{index}" for index in range(len(operands))], ["o"], domain=domain, **attributes
    )
    value = compute_value(node, operands)
    if value is None:
        return "unknown"
    return ("" if value.ndim else "scalar ") + format_dims([*value.flat])


NOTHING = Operand(None, None)
LIST = know("N", 3, "M")
FIVE = numpy_helper.from_array(np.array([5], np.int64))
INT32 = numpy_helper.from_array(np.array([2**31 - 1, -(2**31)], np.int32))
# the result of the operator, as text
RESULTS: list[tuple[str, str]] = [
    (compute("Shape", NOTHING), "unknown"),
    (compute("Gather", LIST, know_scalar(3)), "unknown"),
    (compute("Gather", LIST, know_scalar("N")), "unknown"),
    (compute("Concat", know("N"), Operand(None, (2,)), axis=0), "[N, ?, ?]"),
    (compute("Concat", know("N"), NOTHING, axis=0), "unknown"),
    (compute("Concat", *[know(*range(200))] * 2, axis=0), "unknown"),
    (compute("Concat", know(1), Operand(None, (10**18,)), axis=0), "unknown"),
    (compute("Slice", LIST, know(-2), know(2**63 - 1)), "[3, M]"),
    (compute("Slice", LIST, know(-1), know(-(2**63)), know(0), know(-1)), "[M, 3, N]"),
    (compute("Slice", LIST, know(0), know(3), know(0), NOTHING), "unknown"),
    (compute("Slice", LIST, starts=[0], ends=[1]), "[N]"),
    (compute("Slice", LIST, know("N"), know(3)), "unknown"),
    (compute("Unsqueeze", LIST, know(0)), "unknown"),
    (compute("Squeeze", LIST, know(0)), "unknown"),
    (compute("Cast", LIST, to=TensorProto.FLOAT), "unknown"),
    (compute("Mul", know(1, 2, 3), know(1, 2)), "unknown"),
    (compute("ConstantOfShape", know(10**12), value=FIVE), "unknown"),
    (compute("ConstantOfShape", know("N"), value=FIVE), "unknown"),
    (compute("ConstantOfShape", know(2)), "unknown"),  # floats
    (compute("Reshape", LIST, know(3, 1)), "unknown"),
    (compute("Reshape", know_scalar("N"), shape=[1]), "[N]"),
    (compute("Constant", value_float=1.0), "unknown"),
    (compute("NonZero", LIST), "unknown"),
    (compute("Shape", X, domain="com.example"), "unknown"),
    (compute("Shape"), "unknown"),
    (compute("Gather"), "unknown"),
    (compute("Slice"), "unknown"),
    (compute("Unsqueeze", know_scalar("N"), know(0, 1)), "unknown"),
    (compute("Unsqueeze", know_scalar("N"), NOTHING), "unknown"),
    (compute("Unsqueeze", know_scalar("N"), axes=[0]), "[N]"),
    (compute("Squeeze", know("N")), "scalar [N]"),
    (compute("Squeeze", know("N"), know()), "unknown"),
    (compute("Slice", know("N"), know(-2), know(-3), know(0), know(-1)), "unknown"),
    (compute("ReduceProd", LIST, noop_with_empty_axes=1), "unknown"),
    (compute("ReduceProd", know_scalar("N")), "unknown"),
    (compute("Cast", know(2**31, 7), to=TensorProto.INT32), "[?, 7]"),
    (compute("Cast", know(2**31), to=TensorProto.INT64), "[2147483648]"),
    (compute("Mul", know(2**40), know(2**40)), "[?]"),
    (compute("Add", know(2**63 - 1), know(1)), "[?]"),
    (compute("Size", Operand(None, (2**40, 2**40))), "scalar [?]"),
    (compute("ConstantOfShape", know(0), value=FIVE), "[]"),
    (compute("ConstantOfShape", know(3), value=FIVE), "[5, 5, 5]"),
    (compute("ConstantOfShape", know(-1), value=FIVE), "unknown"),
    (compute("ConstantOfShape", know(2, 3), value=FIVE), "unknown"),
    (compute("Constant", value=INT32), "[2147483647, -2147483648]"),
    (compute("Constant", value_int=-7), "scalar [-7]"),
    (compute("Constant", value=numpy_helper.from_array(np.zeros((1, 1), np.int64))), "unknown"),
    (compute("Constant", value=numpy_helper.from_array(np.zeros(1, np.uint8))), "unknown"),
    (compute("Cast", know(2**31 - 1, -(2**31), -(2**31) - 1), to=TensorProto.INT32), "[2147483647, -2147483648, ?]"),
    (compute("Cast", know(2**63 - 1, -(2**63), 2**63), to=TensorProto.INT64), f"[{2**63 - 1}, {-(2**63)}, ?]"),
    (compute("Cast", know_scalar("N"), to=TensorProto.INT64), "scalar [N]"),
    (compute("ReduceProd", know(2, "N", 3)), "[6*N]"),
    (compute("ReduceProd", know(), keepdims=1), "[1]"),
    (compute("ReduceProd", know(2, 3), keepdims=0), "scalar [6]"),
    (compute("ReduceProd", know(2, 3), noop_with_empty_axes=0), "[6]"),
    (compute("ReduceProd", know(2, None)), "[?]"),
    (compute("Size", Operand(None, (2, 3))), "scalar [6]"),
    (compute("Size", Operand(None, ())), "scalar [1]"),
    (compute("Size", NOTHING), "scalar [?]"),
    (compute("Shape", Operand(None, ())), "[]"),
    (compute("Reshape", know(2, 3), know(-1)), "[2, 3]"),
    (compute("Reshape", know(4), know()), "scalar [4]"),
    (compute("Squeeze", know("N"), know(0)), "scalar [N]"),
    (compute("Squeeze", know("N"), axes=[0]), "scalar [N]"),
    (compute("Squeeze", know("N"), axes=[0, 1]), "unknown"),
    (compute("Unsqueeze", know("N"), axes=[0]), "unknown"),
    (compute("Identity", know_scalar(3)), "scalar [3]"),
    (compute("Identity", know(3), domain="ai.onnx"), "[3]"),
    (compute("Concat", know_scalar(3), know(1), axis=0), "unknown"),
    (compute("Concat", Operand(None, (name_dim("N"),)), axis=0), "unknown"),
    (compute("Concat", Operand(None, (2, 2)), axis=0), "unknown"),
    (compute("Concat", axis=0), "[]"),
]


def test_shape_values_are_propagated_through_onnx_operators():
    assert [computed for computed, _ in RESULTS] == [expected for _, expected in RESULTS]


PLACES = range(-4, 5)
FIRST_ITEMS = ("N", 3, "M")


def slice_list(items: Sequence[object], start: int, end: int, step: int) -> str:
    """Returns a slice as ONNX defines it. It is unknown if the standard and its reference evaluator differ."""
    size = len(items)
    if step == 0 or (step < 0 and start < -size):
        return "unknown"
    first, last = (place + size if place < 0 else place for place in (start, end))
    if step > 0:
        places = range(min(max(first, 0), size), min(max(last, 0), size), step)
    else:
        places = range(min(first, size - 1), min(max(last, -1), size - 1), step)
    return write(items[place] for place in places)


def write(items: Iterable[object]) -> str:
    return f"[{', '.join(map(str, items))}]"


def test_slice_of_a_list_is_that_of_the_standard():
    for size, start, end, step in product(range(4), PLACES, (*PLACES, 2**63 - 1, -(2**63)), (None, *range(-3, 4))):
        items, given = FIRST_ITEMS[:size], [know(start), know(end)]
        if step is not None:
            given += [know(0), know(step)]
        expected = slice_list(items, start, end, 1 if step is None else step)
        assert compute("Slice", know(*items), *given) == expected, (items, start, end, step)
        if step is None:
            assert compute("Slice", know(*items), starts=[start], ends=[end]) == expected, (items, start, end)


def test_items_of_a_list_are_gathered_from_both_ends():
    for size, first, second in product(range(4), PLACES, PLACES):
        items = FIRST_ITEMS[:size]
        legal = all(-size <= place < size for place in (first, second))
        expected = write([items[first], items[second]]) if legal else "unknown"
        assert compute("Gather", know(*items), know(first, second)) == expected, (items, first, second)
        scalar = f"scalar [{items[first]}]" if -size <= first < size else "unknown"
        assert compute("Gather", know(*items), know_scalar(first), axis=0) == scalar, (items, first)


def test_dims_of_a_shape_are_cut_at_start_and_end():
    dims = ("N", 3, "M")
    for start, end in product((None, *PLACES), repeat=2):
        cut = {name: value for name, value in (("start", start), ("end", end)) if value is not None}
        first, last = (
            None if value is None else min(max(value + 3 if value < 0 else value, 0), 3) for value in (start, end)
        )
        places = range(first or 0, 3 if last is None else last)
        assert compute("Shape", X, **cut) == write(dims[place] for place in places), cut


def test_arithmetic_of_lists_is_that_of_64_bit_integers():
    numbers = (*range(-4, 5), 7, 2**31, 2**62, 2**63 - 1, -(2**63))
    exact: dict[str, Callable[[int, int], int | None]] = {
        "Add": lambda one, other: one + other,
        "Sub": lambda one, other: one - other,
        "Mul": lambda one, other: one * other,
        "Div": lambda one, other: int(Fraction(one, other)) if other else None,  # `int` rounds toward 0
    }
    for operator, calculate in exact.items():
        for number in numbers:
            found = [calculate(number, other) for other in numbers]
            texts = ["?" if one is None or not -(2**63) <= one < 2**63 else str(one) for one in found]
            assert compute(operator, know(number), know(*numbers)) == write(texts), (operator, number)


BROADCASTS: dict[tuple[tuple[int, ...] | int, tuple[int, ...] | int], str] = {
    (2, 3): "scalar [6]",
    (2, (3, 5)): "[6, 10]",
    ((3, 5), 2): "[6, 10]",
    ((2,), (3, 5)): "[6, 10]",
    ((3, 5), (2, 7)): "[6, 35]",
    ((), (2,)): "[]",
    ((), (2, 3)): "unknown",
}


def test_arithmetic_broadcasts_scalars_and_lists_of_one_item():
    for pair, expected in BROADCASTS.items():
        one, other = (know_scalar(side) if isinstance(side, int) else know(*side) for side in pair)
        assert compute("Mul", one, other) == expected, pair


# the largest number of items is MAX_ITEMS; the result with one item more
LARGEST: dict[str, Callable[[int], str]] = {
    "a constant": lambda size: compute("Constant", value=numpy_helper.from_array(np.zeros(size, np.int64))),
    "an attribute": lambda size: compute("Constant", value_ints=[0] * size),
    "Concat": lambda size: compute("Concat", know(0), know(*[0] * (size - 1)), axis=0),
    "Concat of unknown items": lambda size: compute("Concat", know(0), Operand(None, (size - 1,)), axis=0),
    "ConstantOfShape": lambda size: compute("ConstantOfShape", know(size), value=FIVE),
    "Gather": lambda size: compute("Gather", know(1), know(*[0] * size)),
    "Mul": lambda size: compute("Mul", know(1), know(*[1] * size)),
    "Identity": lambda size: compute("Identity", know(*[1] * size)),
}


@pytest.mark.parametrize("name", LARGEST)
def test_longest_list_is_known_and_a_longer_one_is_unknown(name: str):
    count = LARGEST[name]
    assert count(MAX_ITEMS).endswith(f" {MAX_ITEMS} items]")
    assert count(MAX_ITEMS + 1) == "unknown"


def test_onnx_constant_is_read_from_raw_or_typed_data():
    raw = numpy_helper.from_array(np.array([2, -1], np.int32))
    listed = helper.make_tensor("t", TensorProto.INT64, [2], [2, -1])
    scalar = numpy_helper.from_array(np.array(3, np.int64))
    values = [None if value is None else value.tolist() for value in map(read_tensor, (raw, listed, scalar))]
    assert values == [[2, -1], [2, -1], 3]


ODD_TENSORS: list[dict[str, object]] = [
    {"raw_data": b"123"},
    {},
    {"dims": [2, 2], "int64_data": [1, 2, 3, 4]},
    {"dims": [-1], "int64_data": [1]},
    {"dims": [2**62]},
    {"data_type": TensorProto.FLOAT, "float_data": [1.0, 2.0]},
    {"data_type": 9999, "int64_data": [1, 2]},
    {"data_location": TensorProto.EXTERNAL},
    {"dims": [MAX_ITEMS + 1], "int64_data": [1] * (MAX_ITEMS + 1)},
]


def test_malformed_onnx_constant_is_unknown():
    for fields in ODD_TENSORS:
        tensor = onnx.TensorProto(**{"data_type": TensorProto.INT64, "dims": [2], **fields})  # type: ignore[arg-type] # wrong on purpose
        assert read_tensor(tensor) is None, fields


STEPS = """
    s = Shape(x) start = Shape<start=1>(x) last = Shape<start=-1>(x) first = Shape<end=-1>(x)
    n = Gather<axis=0>(s, zero) m = Gather(s, second) picked = Gather(s, places)
    nm = Mul(n, m) sum = Add(n, m) half = Div(nm, two) twice = Mul(first, two) each = Mul(first, start)
    part = Slice(s, begin, end, axes, step) same = Identity(s) wide = Cast<to=7>(same)
    a = Unsqueeze(nm, axes) b = Unsqueeze(sum, axes) c = Unsqueeze(half, axes)
    d = Squeeze(a, axes) e = Unsqueeze(d, axes) scalar = Reshape(a, empty) f = Reshape(scalar, minus)
    product = ReduceProd(s) volume = ReduceProd<keepdims=0>(s) g = Reshape(volume, minus)
    size = Size(x) h = Reshape(size, minus)
    filled = ConstantOfShape<value = int64[1] {5}>(places_of_last) five = Constant<value = int64[1] {5}>()
    seven = Constant<value_int=7>() i = Sub(five, seven) j = Constant<value_ints=[0, -1]>()
    y = Concat<axis=0>(a, b, c, e, f, g, h, i, j, start, last, picked, twice, each, part, wide, product, filled)
"""


@examples(50)
@given(st.integers(1, 5), st.integers(1, 5), st.integers(-3, 4), st.integers(-4, 4), st.sampled_from([-2, -1, 1, 2]))
def test_propagated_shape_values_match_the_onnx_reference_evaluator(n: int, m: int, begin: int, end: int, step: int):
    """The values of the names are those of the dims."""
    model = parser.parse_model(f"""<ir_version: 8, opset_import: ["" : 17]>
        g (float[{n},{m},3] x) => (int64[K] y)
        <int64 zero = {{0}}, int64 second = {{-2}}, int64 two = {{2}}, int64[1] axes = {{0}}, int64[1] minus = {{-1}},
         int64[2] places = {{2, 0}}, int64[1] places_of_last = {{2}}, int64[0] empty = {{}},
         int64[1] begin = {{{begin}}}, int64[1] end = {{{end}}}, int64[1] step = {{{step}}}> {{ {STEPS} }}""")
    values = {tensor.name: read_tensor(tensor) for tensor in model.graph.initializer}
    dims = (name_dim("N"), name_dim("M"), 3)
    for node in model.graph.node:
        operands = [Operand(values.get(name), dims if name == "x" else None) for name in node.input]
        values[node.output[0]] = compute_value(node, operands)
    computed: Any = ReferenceEvaluator(model).run(["y"], {"x": np.zeros((n, m, 3), np.float32)})
    value = values["y"]
    assert value is not None
    assert [evaluate(dim, {"N": n, "M": m}) for dim in value] == computed[0].tolist()


def test_onnx_dim_arithmetic_returns_the_expected_dims():
    for calculate, rows in ARITHMETIC.items():
        assert {row: format_dim(calculate(*map(parse_dim, row))) for row in rows} == rows, calculate


def test_dim_expression_above_the_length_limit_becomes_unknown():
    assert add(name_dim("N" * 60), name_dim("M" * 60)) is None
    power: AnyDim = name_dim("N")
    for _ in range(6):
        power = multiply(power, power)
    assert power is not None
    assert multiply(power, name_dim("N")) is None


def evaluate(dim: AnyDim, values: dict[str, int]) -> int:
    """Returns the value of a dim. A name that is a formula is evaluated."""
    if not isinstance(dim, Dim) or dim.expression is None:
        assert isinstance(dim, int)
        return dim
    above, below = (
        prod(evaluate_name(symbol.name, values) for symbol in symbols)
        for symbols in (dim.expression.factors, dim.expression.divisors)
    )
    return dim.expression.coefficient * above // (dim.expression.divisor * below)


def evaluate_name(name: str, values: dict[str, int]) -> int:
    # A formula in another one is quoted, and its quotes are doubled.
    text = re.sub(r"'((?:[^']|'')*)'", lambda inner: str(evaluate_name(inner[1].replace("''", "'"), values)), name)
    text = text.replace("/", "//").replace("^", "**")
    return int(eval(text, {"floor": int}, dict(values)))  # the text has only names, numbers and operators


dims = st.sampled_from([name_dim("N"), name_dim("M"), 1, 2, 3, 6]) | st.builds(
    lambda coefficient, names: multiply(coefficient, Dim((0, None), Expression(1, names))),  # type: ignore[arg-type] # a tuple instead of an Interval
    st.integers(1, 6),
    st.just(()),
)


@example([(multiply, name_dim("N")), (add, name_dim("N")), (divide, name_dim("N"))], 2, 1)
@example([(multiply, name_dim("N")), (divide, name_dim("M")), (divide, name_dim("N"))], 5, 2)
@given(
    st.lists(st.tuples(st.sampled_from([multiply, divide, add]), dims), max_size=4),
    st.integers(1, 9),
    st.integers(1, 9),
)
def test_dim_arithmetic_holds_for_every_value_of_the_symbols(steps: list[tuple[Calculate, AnyDim]], n: int, m: int):
    values = {"N": n, "M": m}
    result: AnyDim = name_dim("N")
    number = n
    for calculate, dim in steps:
        operand = evaluate(dim, values)
        result = calculate(result, dim)
        known = calculate(number, operand)
        assert isinstance(known, int)
        number = known
        if result is None:
            return
    assert evaluate(result, values) == number
