"""Arithmetic of partially known dims."""

import re
from collections.abc import Callable
from math import prod

from hypothesis import example, given
from hypothesis import strategies as st

from tensor_reshape.onnx.arithmetic import add, divide, multiply, subtract
from tensor_reshape.rules.dims import AnyDim, Dim, Expression, format_dim, name_dim
from tensor_reshape.rules.notation import parse_dim

Calculate = Callable[[AnyDim, AnyDim], AnyDim]

# two dims and the result
RESULTS: dict[Calculate, dict[tuple[str, str], str]] = {
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


def test_onnx_dim_arithmetic_returns_the_expected_dims():
    for calculate, rows in RESULTS.items():
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
