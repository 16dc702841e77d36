"""Symbols in the queries of array libraries, and queries that these libraries do not support."""

import pytest

from conformance.adapters.array_libraries import Monomial, Symbols, check_is_offered, find_span, read_for_export
from conformance.adapters.programs import Unsupported
from conformance.adapters.questions import Dim, Question, Unknown


def ask(*shape: Dim, special_zero: bool) -> Question:
    return Question(operation="reshape", data=(2, 3), shape=shape, special_zero=special_zero)


def test_dims_with_equal_names_become_one_bounded_symbol():
    symbols = Symbols()

    first, second = symbols.read([Unknown(2, 9, "N"), Unknown(3, None, "N")])

    assert first == second
    assert list(symbols.bounds.values()) == [(3, 9)]


def test_unnamed_dims_become_separate_symbols():
    first, second = Symbols().read([Unknown(), Unknown()])

    assert first != second


def test_dim_product_contains_the_symbols_of_its_factors():
    symbols = Symbols()

    product, factor = symbols.read([Unknown(name="4*C^2"), Unknown(2, 3, "C")])

    assert isinstance(product, Monomial)
    assert isinstance(factor, Monomial)
    assert product.evaluate(dict.fromkeys(factor.powers, 5)) == 100
    assert symbols.write(product) == Unknown(16, 36, "4*C^2")


def test_symbol_with_equal_bounds_becomes_a_number():
    for (low, high), written in {(0, None): Unknown(0, None, "N"), (8, 8): 8, (3, 10): Unknown(3, 10, "N")}.items():
        symbols = Symbols()
        (dim,) = symbols.read([Unknown(low, high, "N")])
        assert isinstance(dim, Monomial)
        assert symbols.write(dim) == written


def test_dim_product_with_a_zero_is_zero():
    symbols = Symbols()
    empty, other = symbols.read([Unknown(0, 0), Unknown()])

    assert isinstance(empty, Monomial)
    assert isinstance(other, Monomial)
    assert symbols.find_bounds(Monomial(1, {**empty.powers, **other.powers})) == (0, 0)


def test_cases_with_impossible_symbol_bounds_are_skipped():
    for dim in (Unknown(name="N/2"), Unknown(1, None, "4*C"), Unknown(5, 2), Unknown(0, 2**63)):
        with pytest.raises(Unsupported):
            Symbols().read([dim])


def test_array_library_cases_with_special_zero_copies_are_skipped():
    for item in (0, Unknown()):
        check_is_offered(ask(item, special_zero=False))
        with pytest.raises(Unsupported):
            check_is_offered(ask(item, special_zero=True))


def test_array_library_cases_without_zeros_accept_special_zero():
    check_is_offered(ask(-1, Unknown(0, 3), special_zero=True))


def test_strided_tensor_span_covers_first_to_last_element():
    assert [find_span(*tensor) for tensor in (([2, 3], [3, 1]), ([2, 3], [1, 1]), ([2, 0], [5, 5]), ([], []))] == [
        6,
        4,
        0,
        1,
    ]


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        (Question(operation="static_reshape", data=(2,), shape=(2,), special_zero=False), "Reshape-1"),
        (Question(operation="reshape", data=(2,), shape=(2,), special_zero=False, payload=b"12"), "no data"),
        (Question(operation="reshape", data=(2,), shape=(2,), special_zero=False, strides=(1,)), "no data"),
        (Question(operation="reshape", data=None, shape=(2,), special_zero=False), "have a rank"),
        (Question(operation="reshape", data=(2,), shape=(Unknown(),), special_zero=False), "may be an instruction"),
    ],
)
def test_array_library_cases_of_unsupported_operations_are_skipped(asked: Question, told: str):
    with pytest.raises(Unsupported, match=told):
        read_for_export(asked)
