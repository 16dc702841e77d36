"""Products of factors and numbers."""

from tensor_reshape.rules.products import Product

HALF = Product(3, ("A",), 2, ("B",))


def test_products_are_multiplied():
    assert HALF.multiply(Product(5, ("C",)), HALF) == Product(45, ("A", "C", "A"), 4, ("B", "B"))
    assert HALF.multiply() == HALF


def test_reciprocal_swaps_the_factors_and_the_divisors():
    assert HALF.invert() == Product(2, ("B",), 3, ("A",))


def test_common_factors_cancel_with_their_multiplicity():
    assert Product(6, (1, 1, 2), 4, (1, 3)).cancel() == (Product(3, (1, 2), 2, (3,)), (1,))


def test_product_of_no_elements_has_lowest_terms():
    assert Product(0, ("A",), 4, ("A",)).cancel() == (Product(0, ()), ("A",))


def test_each_factor_is_replaced():
    assert HALF.map_factors(str.lower) == Product(3, ("a",), 2, ("b",))
