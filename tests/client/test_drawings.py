"""Questions as pictures, for notebooks and pages."""

import doctest
from xml.etree.ElementTree import fromstring

import pytest

from tensor_reshape.client import InvalidRequestError, ShapeQuery, draw_locally, drawings
from tensor_reshape.client.drawings import Drawing

TITLE = "{http://www.w3.org/2000/svg}title"


def title(drawing: Drawing) -> str | None:
    return fromstring(drawing).findtext(TITLE)


def test_an_answer_and_a_refusal_are_drawn():
    answered = draw_locally(ShapeQuery(data_shape=["N", 3, 4], shape=[0, -1], special_zero=True))
    refused = draw_locally(ShapeQuery(data_shape=[2, 3], shape=[4, -1], special_zero=False))

    assert title(answered) == "static_reshape of [N, 3, 4] to [0, -1] with special_zero: [N, 12]"
    assert title(refused) == "static_reshape of [2, 3] to [4, -1]: refused, NOT_DIVISIBLE"


def test_a_refusal_says_what_is_accepted_without_being_asked_to_explain():
    drawing = draw_locally(ShapeQuery(data_shape=[2, 3], shape=[4, -1], special_zero=False))

    assert "accepted: " in drawing


def test_a_drawing_has_colours_of_its_own_for_light_and_dark():
    drawing = draw_locally(ShapeQuery(data_shape=[2, 3], shape=[6], special_zero=False))

    assert "prefers-color-scheme" in drawing


def test_a_notebook_shows_the_picture():
    drawing = draw_locally(ShapeQuery(data_shape=[2, 3], shape=[6], special_zero=False))

    assert drawing._repr_svg_() == drawing  # IPython's name for it


def test_what_is_no_question_is_not_drawn():
    with pytest.raises(InvalidRequestError):
        draw_locally(ShapeQuery(data_shape=["3..x"], shape=[6], special_zero=False))
    with pytest.raises(ValueError, match="in place of data_from"):
        draw_locally(ShapeQuery(data_from=0, shape=[6], special_zero=False))


def test_the_example_runs():
    assert doctest.testmod(drawings).failed == 0
