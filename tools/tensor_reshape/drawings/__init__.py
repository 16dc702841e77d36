"""Draws shape queries as pictures for notebooks and web pages."""

from tensor_reshape.client.queries import ShapeQuery, read_query
from tensor_reshape.explorer.drawings import draw_answer, draw_rejection
from tensor_reshape.rules.errors import ReshapeError
from tensor_reshape.rules.inference import answer_question

__all__ = ["draw_locally"]


class Drawing(str):
    """An SVG picture as text, which notebooks show as a picture."""

    __slots__ = ()

    def _repr_svg_(self) -> str:
        """Returns the picture that IPython shows."""
        return str(self)


def draw_locally(query: ShapeQuery) -> Drawing:
    """Infers the output shape in this process, and returns the result or the error as a picture.

    The picture is SVG that can be saved as a file, and it is readable on light and dark pages. The picture shows which
    input dimensions become which output dimensions, the equation of the -1 and, for an error, the wrong item.

    >>> from tensor_reshape.client import ShapeQuery
    >>> from tensor_reshape.drawings import draw_locally
    >>> drawing = draw_locally(ShapeQuery(data_shape=["N", 3, 4], shape=[0, -1], special_zero=True))
    >>> drawing.startswith("<svg")
    True

    Raises:
        InvalidRequestError: OPERATION_UNSPECIFIED or DIM_SYNTAX_INVALID, because such a query cannot be drawn.
        ValueError: the data is the output of another query (`data_from`).
    """
    item = read_query(query)
    if item.data_from is not None:
        raise ValueError("a drawing shows one query, so use data_shape instead of data_from")
    question = item.request.question
    try:
        answer = answer_question(item.request._replace(explain=True))
    except ReshapeError as error:
        return Drawing(draw_rejection(question, error, is_standalone=True))
    return Drawing(draw_answer(question, answer, is_standalone=True))
