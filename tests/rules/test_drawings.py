"""Answers and refusals as pictures."""

from collections.abc import Iterable, Iterator
from xml.etree.ElementTree import Element, fromstring

import pytest
from hypothesis import given, settings

from dim_strategies import LAWFUL_REQUESTS, REQUESTS
from tensor_reshape.rules.dims import AnyDim, format_dim, name_dim
from tensor_reshape.rules.drawings import draw_answer, draw_refusal
from tensor_reshape.rules.errors import ReshapeError
from tensor_reshape.rules.inference import answer_question
from tensor_reshape.rules.notation import parse_dim
from tensor_reshape.rules.operations import RESHAPE, STATIC_RESHAPE, Operation
from tensor_reshape.rules.questions import AnyQuestion, Question, ShapeRequest

SVG = "{http://www.w3.org/2000/svg}"
MAX_BYTES = 256 * 1024


def draw(question: AnyQuestion, *, is_standalone: bool = False) -> Element:
    return fromstring(_draw(question, is_standalone=is_standalone))


def _draw(question: AnyQuestion, *, is_standalone: bool = False) -> str:
    try:
        answer = answer_question(ShapeRequest(question, explain=True))
    except ReshapeError as error:
        return draw_refusal(question, error, is_standalone=is_standalone)
    return draw_answer(question, answer, is_standalone=is_standalone)


def ask(
    data: str | None,
    target: str | None,
    operation: Operation = STATIC_RESHAPE,
    *,
    special_zero: bool | None = True,
    expected: str | None = None,
) -> AnyQuestion:
    return Question(operation, read(data), read(target), special_zero, None, read(expected))


def read(text: str | None) -> list[AnyDim] | None:
    return None if text is None else [parse_dim(dim) for dim in text.split(",") if dim]


def list_boxes(picture: Element) -> list[str]:
    """Returns what each box says, in order."""
    boxes = [group for group in picture.iter(f"{SVG}g") if "box" in group.get("class", "")]
    return [" ".join(collect_texts(box.iter(f"{SVG}text"))) for box in boxes]


def list_blamed(picture: Element) -> list[str]:
    return [
        " ".join(collect_texts(box.iter(f"{SVG}text")))
        for box in picture.iter(f"{SVG}g")
        if box.get("class") == "box blamed"
    ]


def collect_texts(elements: Iterable[Element]) -> Iterator[str]:
    return ("".join(element.itertext()) for element in elements)


def list_lines(picture: Element, style: str) -> list[Element]:
    return [path for path in picture.iter(f"{SVG}path") if path.get("class") == f"line {style}"]


def list_footer(picture: Element) -> list[str]:
    return [text.replace("\N{MULTIPLICATION SIGN}", "*") for text in collect_texts(picture.iterfind(f"{SVG}text"))]


def test_an_answer_is_three_rows_of_boxes():
    picture = draw(ask("2,3,4", "0,-1"))
    assert list_boxes(picture) == ["2", "3", "4", "0 copied", "-1 inferred", "2", "12"]
    assert list_footer(picture)[:3] == ["data", "target", "output"]


def test_an_inferred_dim_has_its_equation():
    assert "-1 is 2 * 3 * 4 ÷ 2 = 12" in list_footer(draw(ask("2,3,4", "0,-1")))
    assert "-1 is 2 * 3 * 4 ÷ (2 * 3) = 4" in list_footer(draw(ask("2,3,4", "2,3,-1")))
    assert "-1 is 2 * 3 = 6" in list_footer(draw(ask("2,3", "-1")))


def test_without_an_inferred_dim_both_products_are_shown():
    assert "elements: N * 12 = M * 4" in list_footer(draw(ask("N,12", "M,4")))


def test_what_leaves_both_sides_is_struck_out_in_reshape_1_alone():
    struck = f"{SVG}tspan[@text-decoration]"
    assert [span.text for span in draw(ask("4,0,2", "-1,0", RESHAPE)).iterfind(f".//{struck}")] == ["0", "0"]
    assert draw(ask("4,5,2", "-1,0")).find(f".//{struck}") is None


def test_a_copy_that_stays_in_place_is_one_solid_line():
    (line, _) = list_lines(draw(ask("2,3,4", "0,-1")), "copied")
    assert line.get("stroke-dasharray") is None


def test_a_copied_size_whose_elements_come_from_elsewhere_is_a_dashed_line():
    lines = list_lines(draw(ask("4,5,6", "-1,0")), "copied")
    assert [line.get("stroke-dasharray") is not None for line in lines] == [False, True, False]


def test_dims_that_are_regrouped_meet_in_a_dot():
    assert len([*draw(ask("2,3,4", "6,4")).iter(f"{SVG}circle")]) == 1


def test_names_bounds_and_unknown_dims_are_shown():
    boxes = list_boxes(draw(ask("N:1..8,2..4,?", "0,-1")))
    assert boxes[:3] == ["N 1..8", "2..4", "?"]
    assert boxes[-2] == "N 1..8"


def test_an_unknown_rank_and_a_scalar_have_a_box():
    assert list_boxes(draw(ask(None, "3,-1,0")))[0] == "... any rank"
    assert list_boxes(draw(ask("1", ""))) == ["1", "[ ] scalar", "[ ] scalar"]
    assert list_boxes(draw(ask("2", None))) == ["2", "... any rank", "... any rank"]


def test_an_expected_shape_is_a_row_of_its_own():
    picture = draw(ask("?,4", "-1", expected="8"))
    assert list_boxes(picture)[-1] == "8"
    assert "expected" in list_footer(picture)


@pytest.mark.parametrize(
    ("question", "blamed"),
    [
        (ask("2,3", "4,-1"), ["-1 refused"]),
        (ask("2,3", "1,1,0"), ["0 refused"]),
        (ask("2,3", "4,2"), ["4 refused", "2 refused"]),
        (ask("2,3", "-1", expected="7"), ["7 refused"]),
        (ask(f"2,{2**63}", "-1", RESHAPE), [f"{2**63} refused"]),
        (ask("2,3", "6", special_zero=None), []),
    ],
)
def test_what_is_to_blame_is_marked(question: AnyQuestion, blamed: list[str]):
    assert list_blamed(draw(question)) == blamed


def test_a_refusal_says_why_and_what_is_accepted():
    footer = " ".join(list_footer(draw(ask("2,3", "4,-1"), is_standalone=True)))
    assert "NOT_DIVISIBLE shape[1] is -1: 6 elements do not divide by 4" in footer
    assert footer.endswith("data [2, 3] accepted: other items whose product divides 6: the nearest are 3 and 6")


def test_the_text_of_a_refusal_fits_a_narrow_screen_where_the_boxes_do():
    assert int(draw(ask("2,3", "4,-1"), is_standalone=True).get("width", "")) <= 420
    wide = draw(ask(",".join("2" * 60), ",".join("3" * 60), RESHAPE), is_standalone=True)
    assert 80 <= max(map(len, list_footer(wide))) <= 90


def test_an_item_behind_those_that_are_shown_is_marked_in_the_box_that_stands_for_them():
    question = Question(RESHAPE, [2], [-1], True, None, [1] * 70 + [2**63])
    assert list_blamed(draw(question)) == ["... refused"]


def test_a_reader_hears_what_the_picture_shows():
    picture = draw(ask("N,3,4", "0,-1"))
    assert picture.get("role") == "img"
    assert picture.findtext(f"{SVG}title") == "static_reshape of [N, 3, 4] to [0, -1] with special_zero: [N, 12]"
    assert picture.findtext(f"{SVG}desc") == (
        "shape[0] is 0 and special_zero is true: data dim 0, N (1..); shape[1] is -1: N*12 / N = 12"
    )


@pytest.mark.parametrize("name", ["<script>alert(1)</script>", "]]>", '" onload="x', "名", "a\u202eb"])
def test_a_name_is_text_whatever_it_holds(name: str):
    for target in ([0, -1], [5, -1]):
        picture = draw(Question(RESHAPE, [name_dim(name), 3], target, True))
        assert {element.tag.removeprefix(SVG) for element in picture.iter()} <= ELEMENTS


ELEMENTS = {"svg", "title", "desc", "g", "rect", "path", "circle", "text", "tspan"}
LONG = [name_dim(f"{index:02}" * 32) for index in range(64)]


@pytest.mark.parametrize("target", [[0] * 64, [-1], [*LONG[:63], -1], [1] * 64, [None] * 64, None])
def test_a_drawing_is_small_however_much_is_asked(target: list[AnyDim] | None):
    assert len(_draw(Question(RESHAPE, LONG, target, True))) < MAX_BYTES


@pytest.mark.parametrize("dims", [[7] * 5000, [2**63 - 1] * 5000, [-(2**200)] * 5000])
def test_a_refused_question_of_any_length_has_a_small_drawing(dims: list[AnyDim]):
    assert len(_draw(Question(RESHAPE, dims, dims, True, None, dims))) < MAX_BYTES


@settings(max_examples=60, deadline=None)
@given(REQUESTS | LAWFUL_REQUESTS)
def test_every_question_has_a_well_formed_drawing_that_is_always_the_same(request: ShapeRequest):
    text = _draw(request.question)
    assert {element.tag.removeprefix(SVG) for element in fromstring(text).iter()} <= ELEMENTS
    assert _draw(request.question) == text


@settings(max_examples=40, deadline=None)
@given(LAWFUL_REQUESTS)
def test_every_dim_of_data_and_output_is_in_the_drawing(request: ShapeRequest):
    question = request.question
    try:
        dims = answer_question(request).dims
    except ReshapeError:
        dims = ()
    shown = iter([box.findtext(f"{SVG}title") for box in draw(question).iter(f"{SVG}g")])  # in full, behind a cut label
    assert all(format_dim(dim) in shown for dim in [*(question.data or ()), *(dims or ())])
