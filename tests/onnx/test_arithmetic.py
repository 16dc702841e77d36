"""Arithmetic of dims that are known in part."""

from collections.abc import Callable
from math import prod

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tensor_reshape.onnx.arithmetic import add, divide, multiply, subtract
from tensor_reshape.rules.dims import AnyDim, Dim, Expression, format_dim, name_dim
from tensor_reshape.rules.notation import parse_dim

Calculate = Callable[[AnyDim, AnyDim], AnyDim]

# what is done, with what, what comes out as text
RESULTS: list[tuple[Calculate, str, str, str]] = [
    (multiply, "3", "4", "12"),
    (multiply, "N", "4", "4*N"),
    (multiply, "N", "0", "0"),
    (multiply, "?", "0", "0"),
    (multiply, "N", "-1", "?"),
    (multiply, "N", "?", "?"),
    (multiply, "N", "M", "M*N"),
    (divide, "7", "2", "3"),
    (divide, "-7", "2", "-3"),
    (divide, "7", "0", "?"),
    (divide, "4*N", "2", "2*N"),
    (divide, "4*N", "N", "4"),
    (divide, "M*N", "N", "M"),
    (divide, "N", "8", "floor(N/8)"),
    (divide, "N", "M", "floor(N/M)"),
    (divide, "2*N", "4", "floor((2*N)/4)"),
    (divide, "a + b", "2", "floor((a + b)/2)"),
    (divide, "?", "2", "?"),
    (add, "3", "4", "7"),
    (add, "N", "1", "N + 1"),
    (add, "seq", "past", "seq + past"),
    (add, "4*N", "1", "4*N + 1"),
    (add, "N", "0", "N"),
    (add, "N", "-1", "?"),
    (add, "?", "1", "?"),
    (subtract, "7", "3", "4"),
    (subtract, "N", "0", "N"),
    (subtract, "N", "1", "?"),
]


@pytest.mark.parametrize(("calculate", "one", "other", "result"), RESULTS)
def test_what_is_known_is_calculated(calculate: Calculate, one: str, other: str, result: str):
    assert format_dim(calculate(parse_dim(one), parse_dim(other))) == result


def test_a_name_that_would_be_too_long_is_none():
    assert add(name_dim("N" * 60), name_dim("M" * 60)) is None


def test_a_power_that_no_expression_may_have_is_unknown():
    power: AnyDim = name_dim("N")
    for _ in range(6):
        power = multiply(power, power)
    assert power is not None
    assert multiply(power, name_dim("N")) is None


def evaluate(dim: AnyDim, values: dict[str, int]) -> int:
    """Returns the number that a dim is; the names of formulas are read as what they say."""
    if not isinstance(dim, Dim) or dim.expression is None:
        assert isinstance(dim, int)
        return dim
    above, below = (
        prod(evaluate_name(symbol.name, values) for symbol in symbols)
        for symbols in (dim.expression.factors, dim.expression.divisors)
    )
    return dim.expression.coefficient * above // (dim.expression.divisor * below)


def evaluate_name(name: str, values: dict[str, int]) -> int:
    text = name.replace("/", "//").replace("^", "**").replace("'", "")  # in quotes is a formula within one
    return int(eval(text, {"floor": int}, dict(values)))  # made of names, numbers and signs by the module itself


dims = st.sampled_from([name_dim("N"), name_dim("M"), 1, 2, 3, 6]) | st.builds(
    lambda coefficient, names: multiply(coefficient, Dim((0, None), Expression(1, names))),  # type: ignore[arg-type] # a pair will do
    st.integers(1, 6),
    st.just(()),
)


@example([(multiply, name_dim("N")), (divide, name_dim("M")), (divide, name_dim("N"))], 5, 2)
@given(
    st.lists(st.tuples(st.sampled_from([multiply, divide, add]), dims), max_size=4),
    st.integers(1, 9),
    st.integers(1, 9),
)
def test_what_comes_out_is_true_of_every_value(steps: list[tuple[Calculate, AnyDim]], n: int, m: int):
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
