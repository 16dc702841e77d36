"""What `tensor_reshape.testing` offers."""

import pytest

from tensor_reshape import testing


@pytest.mark.parametrize("name", testing.__all__)
def test_a_name_that_is_offered_exists(name: str):
    assert callable(getattr(testing, name))


def test_a_name_that_is_not_offered_is_an_attribute_error():
    with pytest.raises(AttributeError, match="FakeServer"):
        _ = testing.FakeServer  # type: ignore[attr-defined] # that is the point: a type checker finds it, too
