"""Step budgets, and the answers to queries at each limit and just above it."""

from contextlib import suppress

import pytest

from tensor_reshape.rules import limits
from tensor_reshape.rules.dims import format_dims
from tensor_reshape.rules.errors import ReshapeError
from tensor_reshape.rules.inference import infer
from tensor_reshape.rules.limits import MAX_STEPS, StepBudget
from tensor_reshape.rules.operations import RESHAPE, STATIC_RESHAPE
from tensor_reshape.rules.solvers.propagation import MAX_SEARCHED
from written_questions import write_question

TOP = 2**63 - 1
N64, N65 = "N" * 64, "N" * 65


def name(first: int, count: int) -> str:
    """Returns a product of different names."""
    return "*".join(f"n{index}" for index in range(first, first + count))


def raise_to_powers(most: int) -> list[int]:
    """Returns numbers below 2^63, whose product is a multiple of each number from 1 to `most`."""
    primes = [one for one in range(2, most + 1) if all(one % other for other in range(2, one))]
    return [max(prime**power for power in range(1, 9) if prime**power <= most) for prime in primes]


def multiply_up_to(most: int) -> str:
    """Returns dims whose product is a multiple of each number from 1 to `most`."""
    dims = [1]
    for number in raise_to_powers(most):
        if dims[-1] * number > TOP:
            dims.append(1)
        dims[-1] *= number
    return " ".join(map(str, dims))


# data, target with special_zero; dims and conditions, or the reason and the field of the rejection
LIMITS: dict[tuple[str, str], str] = {
    # the largest dim
    (f"{TOP}", "-1"): f"[{TOP}]",
    (f"{TOP + 1}", "-1"): "DIM_OUT_OF_RANGE data.dims[0]",
    (f"1..{TOP}", "-1"): "[1..]",
    (f"1..{TOP + 1}", "-1"): "DIM_OUT_OF_RANGE data.dims[0]",
    (f"{TOP}..", "-1"): f"[{TOP}]",
    (f"{TOP + 1}..", "-1"): "DIM_OUT_OF_RANGE data.dims[0]",
    (f"{TOP} 1", f"{TOP} -1"): f"[{TOP}, 1]",
    ("?", f"{TOP + 1} -1"): "INVALID_TARGET_VALUE shape[0]",
    (f"{TOP}*N:0..", "0"): f"[{TOP}*N]",
    (f"{TOP + 1}*N:0..", "0"): "EXPRESSION_INVALID data.dims[0]",
    (f"N/{TOP}", "0"): f"[N/{TOP}]",
    (f"N/{TOP + 1}", "0"): "EXPRESSION_INVALID data.dims[0]",
    ("7 1317624576693539401", "-1"): f"[{TOP}]",
    ("2 4611686018427387904", "-1"): "DIM_OVERFLOW shape[0]",
    # names, and symbols of an expression and a query
    (N64, "0"): f"[{N64}]",
    (N65, "0"): "EXPRESSION_INVALID data.dims[0]",
    (name(10, 64), "0"): f"[{name(10, 64)}]",
    (name(10, 65), "0"): "EXPRESSION_INVALID data.dims[0]",
    (" ".join([name(10, 64)] * 4), "0 0 0 0"): f"[{', '.join([name(10, 64)] * 4)}]",
    (" ".join([name(10, 64)] * 4), "0 0 0 0 N"): "EXPRESSION_INVALID",
    # the unknown items that are examined, as copies of a 0 and as the -1
    ("0..2 0..2 0..2 6", "? ? ? -1"): "[?, ?, ?, 0..48]",
    ("0..2 0..2 0..2 0..2 6", "? ? ? ? -1"): "[?, ?, ?, ?, ?]",
    ("6 5", "? ? ? ?"): "[1..30, 1..30, 1..30, 1..30]",
    ("6 5", "? ? ? ? ?"): "[?, ?, ?, ?, ?]",
    # the divisors of a number that are listed, and the bits of this number
    ("1921920", "N:27..28 -1"): "[28, 68640] N = 28",  # 256 divisors
    ("3843840", "N:27..28 -1"): "[28, 137280] N divides 3843840",
    ("N N", "-1 1921920"): "[N^2/1921920, 1921920] 240240 divides N",
    ("N N", "-1 3843840"): "[N^2/3843840, 3843840] 3843840 divides N^2",
    ("N N", f"-1 {2**32} {2**31}"): f"[?, {2**32}, {2**31}] {2**32} divides N",
    ("N N", f"-1 {2**32} {2**32}"): f"[?, {2**32}, {2**32}] incomplete",
    (f"{2**32} {2**31}", "N:3..5 -1"): f"[4, {2**61}] N = 4",
    (f"{2**32} {2**32}", "N:3..5 -1"): f"[4, {2**62}] incomplete",
}


def describe(data: str, target: str) -> str:
    """Returns the dims of the output and the conditions, or the reason and the field of the rejection."""
    try:
        answer = infer(write_question(RESHAPE, data, target, special_zero=True))
    except ReshapeError as error:
        return f"{error.reason} {error.field}".strip()
    listed = ", ".join(map(str, answer.conditions))
    is_known = answer.conditions_complete or "?" in target
    return f"{format_dims(answer.dims)} {listed}{'' if is_known else 'incomplete'}".strip()


@pytest.mark.parametrize("row", LIMITS, ids=str)
def test_limit_is_exact(row: tuple[str, str]):
    assert describe(*row) == LIMITS[row]


def test_limits_have_these_values():
    assert {name: value for name, value in vars(limits).items() if isinstance(value, int)} == {
        "MAX_DIM": 2**63 - 1,
        "GRAPH_MAX_RANK": 12,
        "MAX_RANK": 64,
        "MAX_HEADER_BYTES": 65_536,
        "MAX_PROTOBUF_BYTES": 2_147_483_647,
        "MAX_BATCH_BYTES": 4_194_304,
        "MAX_BATCH_ITEMS": 65_536,
        "LIGHT_HEADER_BYTES": 4096,
        "MAX_MESSAGE_BYTES": 16_842_752,
        "MAX_TENSOR_BYTES": 1_099_511_627_776,
        "MAX_STEPS": 4000,
    }


def test_divisor_of_a_product_is_tried_with_at_most_256_values():
    found = [describe(f"{multiply_up_to(most)} M", f"N:1..{most} -1").endswith("incomplete") for most in (256, 257)]
    assert found == [False, True]


def test_copied_zeros_are_examined_only_if_they_cancel():
    target = write_question(STATIC_RESHAPE, "0..2 0..2 0..2 0..2 6", "? ? ? ? -1", special_zero=True)
    assert format_dims(infer(target).dims) == "[1.., 1.., 1.., 1.., 0..96]"


def test_at_most_twelve_variables_are_searched():
    assert MAX_SEARCHED == 12
    found = [describe("1..2 " * count, "5..").split()[0] for count in (11, 12)]
    assert found == ["[8..2048]", "[5..4096]"]


def test_search_ends_when_its_steps_are_used_up():
    found = {low: describe("1..2 " * 11, f"{low}..").split()[0] for low in (9, 17, 33)}
    assert found == {9: "[14..2048]", 17: "[23..2048]", 33: "[40..2048]"}


def test_step_budget_spend_succeeds_only_with_enough_steps():
    assert StepBudget().left == MAX_STEPS
    for steps, is_paid, left in [(3, True, 2), (5, True, 0), (6, False, -1)]:
        budget = StepBudget(5)
        assert (budget.spend(steps), budget.left) == (is_paid, left)
    overdrawn = StepBudget(1)
    assert [overdrawn.spend(2), overdrawn.spend(1)] == [False, False]


def test_step_budget_gets_held_steps_back_after_the_block():
    budget = StepBudget(90)
    with budget.hold(2):
        assert budget.left == 30
        budget.spend(40)
    assert budget.left == 50
    with suppress(ZeroDivisionError), budget.hold(1):
        _ = 1 // 0
    assert budget.left == 50


def test_overdrawn_step_budget_holds_no_steps():
    budget = StepBudget(1)
    budget.spend(3)
    with budget.hold(1):
        assert budget.left == -2
    assert budget.left == -2
