"""Queries as pictures, for notebooks and pages."""

from xml.etree.ElementTree import fromstring

import pytest

from tensor_reshape.client import InvalidRequestError, ShapeQuery
from tensor_reshape.drawings import draw_locally

TITLE = "{http://www.w3.org/2000/svg}title"


def test_draw_returns_an_svg_for_results_and_errors():
    answered = draw_locally(ShapeQuery(data_shape=["N", 3, 4], shape=[0, -1], special_zero=True))
    rejected = draw_locally(ShapeQuery(data_shape=[2, 3], shape=[4, -1], special_zero=False))
    titles = [fromstring(drawing).findtext(TITLE) for drawing in (answered, rejected)]
    assert titles == [
        "static_reshape of [N, 3, 4] to [0, -1] with special_zero: [N, 12]",
        "static_reshape of [2, 3] to [4, -1]: rejected, NOT_DIVISIBLE",
    ]
    assert "accepted: " in rejected  # without `explain`
    assert "prefers-color-scheme" in answered
    assert answered._repr_svg_() == answered  # IPython calls this method


def test_draw_raises_an_error_for_an_invalid_query():
    with pytest.raises(InvalidRequestError):
        draw_locally(ShapeQuery(data_shape=["3..x"], shape=[6], special_zero=False))
    with pytest.raises(ValueError, match="use data_shape instead of data_from"):
        draw_locally(ShapeQuery(data_from=0, shape=[6], special_zero=False))
