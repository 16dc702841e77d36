"""Where each dim comes from, and what is accepted in place of what is refused."""

import re

import pytest

from tensor_reshape.rules.dims import ANY, AnyDim, Dim, Interval, Symbol, make_expression, name_dim
from tensor_reshape.rules.errors import InvalidRequestError, ReshapeError
from tensor_reshape.rules.inference import answer_question
from tensor_reshape.rules.operations import RESHAPE, STATIC_RESHAPE, Operation
from tensor_reshape.rules.questions import Kind, Origin, Question, ShapeRequest


def explain(
    data: list[AnyDim] | None, target: list[AnyDim] | None, operation: Operation = RESHAPE
) -> tuple[Origin, ...]:
    question = Question(operation=operation, data=data, target=target, special_zero=True)
    return answer_question(ShapeRequest(question, explain=True)).origins


def refuse(
    data: list[AnyDim], target: list[AnyDim], *, special_zero: bool = True, expected: list[AnyDim] | None = None
) -> ReshapeError:
    question = Question(operation=RESHAPE, data=data, target=target, special_zero=special_zero, expected=expected)
    with pytest.raises(InvalidRequestError) as caught:
        answer_question(ShapeRequest(question, explain=True))
    return caught.value


def test_every_item_has_an_origin():
    kinds = [origin.kind for origin in explain([3, 2, 2, 2, 4], [0, 2, -1, Dim(Interval(1, 1))])]
    assert kinds == [Kind.COPIED, Kind.LITERAL, Kind.INFERRED, Kind.LENGTH]


def test_an_unknown_item_has_an_origin():
    assert explain([3, 2], [None])[0].kind is Kind.UNKNOWN


def test_a_copy_tells_which_dim_it_is():
    assert [origin.data_index for origin in explain([3, 2], [0, -1])] == [0, None]


@pytest.mark.parametrize(("operation", "parts"), [(RESHAPE, ("8", "2")), (STATIC_RESHAPE, ("24", "6"))], ids=str)
def test_a_minus_one_tells_what_is_divided_by_what(operation: Operation, parts: tuple[str, str]):
    origin = explain([3, 2, 4], [0, 2, -1], operation)[2]
    assert (origin.dividend, origin.divisor) == parts


def test_an_answer_without_a_rank_has_no_origins():
    assert explain([2], None) == ()


# data, target, special_zero, expected; rule, what the accepted text holds
REFUSED: dict[str, tuple[list[AnyDim], list[AnyDim], bool, list[AnyDim] | None, str, str]] = {
    "a value": ([2], [-3], True, None, "2", "-1"),
    "a copy": ([2], [1, 0], True, None, "2", "index below 1"),
    "a second -1": ([2], [-1, -1], True, None, "2", "one -1"),
    "a 0 beside a -1": ([2], [0, -1], False, None, "3", "without a 0"),
    "a remainder": ([24], [-1, 9], True, None, "3", "8 and 12"),
    "a volume": ([24], [3, 5], True, None, "4", "24"),
    "an expected dim": ([24], [-1], True, [23], "5", "24"),
    "an interval": ([Dim(Interval(3, 2))], [-1], True, None, "1", "order"),
    "an expression": ([Dim(ANY, make_expression(0, [Symbol("N")]))], [-1], True, None, "1", "names"),
    "a symbol": ([name_dim("N", 1, 2)], [name_dim("N", 3)], True, None, "1", "in common"),
    "a dim": ([2**63], [-1], True, None, "1", "2^63 - 1"),
    "an overflow": ([2**62, 2], [-1], True, None, "3", "2^63 - 1"),
}


@pytest.mark.parametrize(
    ("data", "target", "special_zero", "expected", "rule", "accepted"), REFUSED.values(), ids=REFUSED.keys()
)
def test_a_refusal_tells_its_rule_and_what_is_accepted(
    data: list[AnyDim],
    target: list[AnyDim],
    special_zero: bool,
    expected: list[AnyDim] | None,
    rule: str,
    accepted: str,
):
    metadata = refuse(data, target, special_zero=special_zero, expected=expected).metadata
    assert metadata["rule"] == rule
    assert accepted in metadata["accepted"]


def test_what_is_worked_out_for_the_question_is_part_of_the_message():
    refused = refuse([24], [-1, 9], special_zero=True)
    assert refused.message.endswith(f"; accepted: {refused.metadata['accepted']}")


def test_what_the_rule_says_already_is_not():
    assert "accepted" not in refuse([2], [-3], special_zero=True).message


def test_a_division_names_the_dim_that_a_0_copies_and_not_the_0():
    data: list[AnyDim] = [name_dim("N"), 7]
    whole = answer_refused(data, STATIC_RESHAPE)
    assert (whole.metadata["dividend"], whole.metadata["divisor"]) == ("N*7", "N*5")
    rest = answer_refused(data, RESHAPE)  # without what the copies take from both sides
    assert (rest.metadata["dividend"], rest.metadata["divisor"]) == ("7", "5")


def answer_refused(data: list[AnyDim], operation: Operation) -> ReshapeError:
    with pytest.raises(InvalidRequestError) as caught:
        answer_question(ShapeRequest(Question(operation, data, [0, 5, -1], True)))
    return caught.value


@pytest.mark.parametrize("divisor", [5, 7, 11, 13, 100])
def test_the_nearest_divisors_are_accepted(divisor: int):
    accepted = refuse([24], [-1, divisor]).metadata["accepted"]
    near = [int(word) for word in re.findall(r"\d+", accepted.partition("nearest")[2])]
    assert [explain([24], [-1, value])[0].kind for value in near] == [Kind.INFERRED] * len(near)


def test_every_text_is_short_however_long_the_question_is():
    long = [
        Dim(ANY, make_expression(2**63 - 1, [Symbol(f"{index}" * 32) for index in range(10, 42)])) for _ in range(4)
    ]
    targets: list[list[AnyDim]] = [[0] * 4, [None] * 4, [*long], [*long[:-1], -1]]
    lengths = [
        len(text)
        for target in targets
        for origin in explain([*long], target)
        for text in (origin.text, origin.dividend, origin.divisor)
    ]
    assert max(lengths) <= 192


@pytest.mark.parametrize(
    ("data", "target", "accepted"),
    [
        ([6], [-1, 40], "divides 6: the nearest is 6"),
        ([1_000_003, 1_000_033], [-1, 5000], "divides 1000036000099, such as 1 and 1000003"),
        ([1024, 768, 1024], [-1, 5000], "the nearest are 4096 and 6144"),
    ],
)
def test_divisors_are_named_however_far_they_are(data: list[AnyDim], target: list[AnyDim], accepted: str):
    assert refuse(data, target).metadata["accepted"].endswith(accepted)
