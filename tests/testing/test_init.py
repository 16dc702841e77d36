"""What `tensor_reshape.testing` offers."""

import pytest

from tensor_reshape import testing


def test_the_offered_names_exist_and_no_other():
    assert all(callable(getattr(testing, name)) for name in testing.__all__)
    with pytest.raises(AttributeError, match="FakeServer"):
        _ = testing.FakeServer  # type: ignore[attr-defined] # that is the point: a type checker finds it, too
