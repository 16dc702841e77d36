"""Answers and rejections as drawings."""

import re
from collections.abc import Iterable, Iterator
from xml.etree.ElementTree import Element, fromstring

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hypothesis_profiles import examples
from strategies import LAWFUL_REQUESTS, REQUESTS
from tensor_reshape.drawings.svg import (
    LABEL_CHARACTERS,
    clip_label,
    count_cells,
    draw_answer,
    draw_explained,
    draw_question,
    draw_rejection,
    draw_title,
    escape_text,
    wrap_picture,
)
from tensor_reshape.rules.dims import AnyDim, format_dim, name_dim
from tensor_reshape.rules.errors import InvalidRequestError, LimitError, PermissionDeniedError, Reason, ReshapeError
from tensor_reshape.rules.inference import answer_question
from tensor_reshape.rules.operations import RESHAPE, STATIC_RESHAPE, Operation
from tensor_reshape.rules.questions import AnyQuestion, Question, ShapeAnswer, ShapeRequest
from written_questions import write_question

SVG = "{http://www.w3.org/2000/svg}"
MAX_BYTES = 256 * 1024

LONG = [name_dim(f"{index:02}" * 32) for index in range(64)]

REQUEST = ShapeRequest(write_question(STATIC_RESHAPE, "2 3 4", "0 -1", True), explain=True)


def write(question: AnyQuestion, *, is_standalone: bool = False) -> str:
    try:
        answer = answer_question(ShapeRequest(question, explain=True))
    except ReshapeError as error:
        return draw_rejection(question, error, is_standalone=is_standalone)
    return draw_answer(question, answer, is_standalone=is_standalone)


def reject(request: ShapeRequest) -> ReshapeError:
    with pytest.raises(ReshapeError) as caught:
        answer_question(request)
    return caught.value


def draw(question: AnyQuestion, *, is_standalone: bool = False) -> Element:
    picture = fromstring(write(question, is_standalone=is_standalone))
    tags = {element.tag.removeprefix(SVG) for element in picture.iter()}
    assert tags <= {"svg", "title", "desc", "g", "rect", "path", "circle", "text", "tspan", "style"}
    return picture


def ask(
    data: str | None, target: str | None, operation: Operation = STATIC_RESHAPE, expected: str | None = None
) -> AnyQuestion:
    return write_question(operation, data, target, True, expected)


def collect_texts(elements: Iterable[Element]) -> Iterator[str]:
    return ("".join(element.itertext()) for element in elements)


def list_boxes(picture: Element, kind: str = "box") -> list[str]:
    """Returns the text of each box, in order."""
    boxes = [group for group in picture.iter(f"{SVG}g") if kind in group.get("class", "")]
    return [" ".join(collect_texts(box.iter(f"{SVG}text"))) for box in boxes]


def list_dashes(question: AnyQuestion) -> list[bool]:
    """Returns whether each line of a copy is dashed."""
    lines = [path for path in draw(question).iter(f"{SVG}path") if path.get("class") == "line copied"]
    return [line.get("stroke-dasharray") is not None for line in lines]


def list_footer(picture: Element) -> list[str]:
    return [text.replace("\N{MULTIPLICATION SIGN}", "*") for text in collect_texts(picture.iterfind(f"{SVG}text"))]


def test_drawing_has_rows_for_data_target_and_output():
    picture = draw(ask("2 3 4", "0 -1"))
    assert list_boxes(picture) == ["2", "3", "4", "0 copied", "-1 inferred", "2", "12"]
    assert list_footer(picture)[:3] == ["input shape", "requested shape", "output shape"]


def test_drawing_shows_the_calculation_of_an_inferred_dim():
    assert "-1 is 2 * 3 * 4 ÷ 2 = 12" in list_footer(draw(ask("2 3 4", "0 -1")))
    assert "-1 is 2 * 3 * 4 ÷ (2 * 3) = 4" in list_footer(draw(ask("2 3 4", "2 3 -1")))
    assert "-1 is 2 * 3 = 6" in list_footer(draw(ask("2 3", "-1")))
    assert "elements: N * 12 = M * 4" in list_footer(draw(ask("N 12", "M 4")))


def test_drawing_strikes_out_cancelled_dims_only_for_the_reshape_operation():
    struck = f".//{SVG}tspan[@text-decoration]"
    assert [span.text for span in draw(ask("4 0 2", "-1 0", RESHAPE)).iterfind(struck)] == ["0", "0"]
    assert draw(ask("4 5 2", "-1 0")).find(struck) is None


def test_drawing_dashes_a_copied_dim_whose_elements_are_regrouped():
    assert list_dashes(ask("2 3 4", "0 -1")) == [False, False]
    assert list_dashes(ask("4 5 6", "-1 0")) == [False, True, False]


def test_drawing_connects_regrouped_dims_by_a_dot():
    assert len([*draw(ask("2 3 4", "6 4")).iter(f"{SVG}circle")]) == 1


def test_drawing_has_boxes_for_names_bounds_and_unknown_ranks():
    boxes = list_boxes(draw(ask("N:1..8 2..4 ?", "0 -1")))
    assert (boxes[:3], boxes[-2]) == (["N 1..8", "2..4", "?"], "N 1..8")
    assert list_boxes(draw(ask(None, "3 -1 0")))[0] == "... any rank"
    assert list_boxes(draw(ask("1", ""))) == ["1", "[ ] scalar", "[ ] scalar"]
    assert list_boxes(draw(ask("2", None))) == ["2", "... any rank", "... any rank"]


def test_drawing_shows_the_expected_shape_in_its_own_row():
    picture = draw(ask("? 4", "-1", expected="8"))
    assert list_boxes(picture)[-1] == "8"
    assert "expected shape" in list_footer(picture)


def test_error_drawing_marks_the_wrong_item():
    questions = {
        ("-1 rejected",): ask("2 3", "4 -1"),
        ("0 rejected",): ask("2 3", "1 1 0"),
        ("4 rejected", "2 rejected"): ask("2 3", "4 2"),
        ("7 rejected",): ask("2 3", "-1", expected="7"),
        (f"{2**63} rejected",): ask(f"2 {2**63}", "-1", RESHAPE),
        (): write_question(STATIC_RESHAPE, "2 3", "6", None),
        # The last box stands for all items that are not shown.
        ("... rejected",): Question(RESHAPE, [2], [-1], True, None, [1] * 70 + [2**63]),
    }
    assert [tuple(list_boxes(draw(question), "box blamed")) for question in questions.values()] == list(questions)


def test_error_drawing_has_message_and_hint():
    footer = " ".join(list_footer(draw(ask("2 3", "4 -1"), is_standalone=True)))
    assert "NOT_DIVISIBLE shape[1] is -1: 6 elements are not divisible by 4" in footer
    assert footer.endswith("input shape [2, 3] accepted: other items whose product divides 6: the nearest are 3 and 6")


def test_error_drawing_text_fits_a_narrow_screen():
    assert int(draw(ask("2 3", "4 -1"), is_standalone=True).get("width", "")) <= 420
    wide = draw(ask("2 " * 60, "3 " * 60, RESHAPE), is_standalone=True)
    assert 80 <= max(map(len, list_footer(wide))) <= 90


def test_shape_drawing_has_title_and_description():
    picture = draw(ask("N 3 4", "0 -1"))
    assert picture.get("role") == "img"
    assert picture.findtext(f"{SVG}title") == "static_reshape of [N, 3, 4] to [0, -1] with special_zero: [N, 12]"
    assert picture.findtext(f"{SVG}desc") == (
        "shape[0] is 0 and special_zero is true: input dimension 0, N (1..); shape[1] is -1: N*12 / N = 12"
    )


def test_drawing_of_a_large_query_has_limited_bytes():
    targets: list[list[AnyDim] | None] = [[0] * 64, [-1], [*LONG[:63], -1], [1] * 64, [None] * 64, None]
    questions = [Question(RESHAPE, LONG, target, True) for target in targets]
    rejected: tuple[list[AnyDim], ...] = ([7] * 5000, [2**63 - 1] * 5000, [-(2**200)] * 5000)
    questions += [Question(RESHAPE, dims, dims, True, None, dims) for dims in rejected]
    assert max(len(write(question)) for question in questions) < MAX_BYTES


@examples(60)
@given(REQUESTS)
def test_shape_drawings_are_deterministic(request: ShapeRequest):
    draw(request.question)
    assert write(request.question) == write(request.question)


@examples(40)
@given(LAWFUL_REQUESTS)
def test_shape_drawing_contains_every_input_and_output_dim(request: ShapeRequest):
    question = request.question
    try:
        dims = answer_question(request).dims
    except ReshapeError:
        dims = ()
    shown = iter(
        [box.findtext(f"{SVG}title") for box in draw(question).iter(f"{SVG}g")]
    )  # in full, even if the label is cut
    assert all(format_dim(dim) in shown for dim in [*(question.data or ()), *(dims or ())])


@given(st.text(max_size=80))
def test_svg_title_of_any_text_is_well_formed_xml(text: str):
    printable = "".join(character for character in text if character.isprintable())
    read = fromstring(draw_title(text)).text or ""
    assert read == text if printable == text else len(read) > len(printable)
    assert count_cells(clip_label(text)) <= LABEL_CHARACTERS


def test_svg_text_escapes_markup_and_unprintable_characters():
    for text in ("<script>", "a & b", "]]>", '" onload="', "' onload='", "<!--"):
        assert not set(escape_text(text).replace("&lt;", "").replace("&amp;", "")) & set("<>\"'"), text
    for text in ("\x00", "\ufffe", "\ud800", "\u202e", "\n"):
        assert escape_text(text).startswith("\\"), ascii(text)


def test_answer_that_contradicts_its_query_is_drawn_without_an_explanation():
    """A server of another project may return any shape."""
    for data, target, dims in (
        ("2 3", "-1", (6, 1)),
        ("2 3", "2 -1", ()),
        ("2 3", "-1 -1", (2, 3)),
        ("2", "0 0", (2, 1)),
    ):
        drawing = fromstring(draw_answer(ask(data, target), ShapeAnswer(dims)))
        assert list_boxes(drawing) == [*data.split(), *target.split(), *(map(str, dims) if dims else ["[ ] scalar"])]
        assert list_footer(drawing)[3:] == []


def test_rejection_without_an_explanation_is_drawn_with_accepted_values():
    question = ask("N:5..7 12", "40 -1")
    errors = [reject(ShapeRequest(question, explain=explain)) for explain in (False, True)]
    assert ["accepted" in error.metadata for error in errors] == [False, True]
    assert (
        draw_explained(question, errors[0])
        == draw_explained(question, errors[1])
        == write(question, is_standalone=True)
    )


def test_rejection_with_a_cause_of_its_server_is_drawn_unchanged():
    question = ask("1 1 6", "-1", RESHAPE)
    error = LimitError("data has 3 items", reason=Reason.RANK_LIMIT_EXCEEDED, field="data.dims")
    assert draw_explained(question, error) == draw_rejection(question, error, is_standalone=True)


def test_style_sheet_of_a_standalone_svg_applies_only_to_drawings():
    (style,) = draw(ask("2 3", "6"), is_standalone=True).iter(f"{SVG}style")
    assert set(re.findall(r"([^{}]+)\{[a-z]+:", style.text or "")) == {".tensor-reshape"}


def test_standalone_svg_has_light_and_dark_colours():
    assert "prefers-color-scheme:dark" in wrap_picture(("title", ""), (1, 1), [], is_standalone=True)
    assert "style" not in wrap_picture(("title", ""), (1, 1), [], is_standalone=False)


def draw_rejected(error: ReshapeError) -> str:
    def reject(_request: ShapeRequest) -> ShapeAnswer:
        raise error

    return draw_question(REQUEST, reject)


def test_accepted_query_is_drawn_with_its_answer():
    assert draw_question(REQUEST, answer_question) == draw_answer(REQUEST.question, answer_question(REQUEST))


def test_rejected_query_is_drawn_with_its_rejection():
    for error in (
        InvalidRequestError("no", reason=Reason.NOT_DIVISIBLE, field="shape[1]"),
        LimitError("long", reason=Reason.RANK_LIMIT_EXCEEDED, field="shape"),
    ):
        assert draw_rejected(error) == draw_rejection(REQUEST.question, error)


def test_drawing_raises_call_errors_such_as_server_busy():
    for error in (
        LimitError("full", reason=Reason.SERVER_BUSY),
        LimitError("many", reason=Reason.QUOTA_EXCEEDED),
        LimitError("gone", reason=Reason.STALLED),
        PermissionDeniedError("no", reason=Reason.PERMISSION_DENIED),
        ReshapeError("internal error", reason=Reason.INTERNAL_ERROR),
    ):
        with pytest.raises(type(error)) as caught:
            draw_rejected(error)
        assert caught.value is error
