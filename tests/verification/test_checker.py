"""The checker finds nothing in right answers, and finds the answers of planted wrong solvers."""

import subprocess
import sys
from collections.abc import Callable
from random import Random

import pytest

from tensor_reshape.rules.inference import infer
from tensor_reshape.rules.operations import RESHAPE
from tensor_reshape.rules.questions import ShapeRequest
from tensor_reshape.v1.reshape_pb2 import Condition, InferShapeRequest, InferShapeResponse
from tensor_reshape.v1.tensor_pb2 import Expression, Interval, PartialDim, Symbol
from tensor_reshape.wire.inference import build_infer_request, build_infer_response
from verification.checker import check, find_instances
from written_questions import write_question

Change = Callable[[InferShapeResponse], object]
FALSE = Condition(kind=Condition.KIND_RANGE, left=Expression(factors=[Symbol(name="N")]), min=1, text="N >= 1")
OTHER = Condition(kind=Condition.KIND_RANGE, left=Expression(factors=[Symbol(name="K")]), min=1, text="K >= 1")


def ask(data: str | None, target: str, expected: str | None) -> tuple[InferShapeRequest, InferShapeResponse]:
    question = write_question(RESHAPE, data, target, True, expected)
    return build_infer_request(ShapeRequest(question)), build_infer_response(infer(question))


def set_dim(dim: PartialDim) -> Change:
    """Replaces dimension 0 of an answer."""

    def change(answer: InferShapeResponse) -> None:
        answer.shape.dims[0] = -1
        others = [entry for entry in answer.shape.partial if entry.index]
        answer.shape.ClearField("partial")
        answer.shape.partial.extend([dim, *others])

    return change


def set_number(number: int) -> Change:
    return lambda answer: answer.shape.dims.__setitem__(0, number)


def set_bounds(low: int, high: int | None) -> Change:
    return set_dim(PartialDim(index=0, interval=Interval(min=low, max=high)))


def set_symbol(name: str, high: int) -> Change:
    return set_dim(PartialDim(index=0, symbol=Symbol(name=name, bounds=Interval(max=high))))


# data, target and expected shape; what a wrong solver does with the answer; the fault that the checker finds
PLANTED: dict[str, tuple[str | None, str, str | None, Change, str]] = {
    "drops a condition": ("N 6", "4 -1", None, lambda one: one.ClearField("conditions"), "incomplete conditions"),
    "drops one of two": ("0..9 0..9", "0 3", "2 ?", lambda one: one.conditions.pop(0), "incomplete conditions"),
    "weakens a condition": (
        "N 8",
        "4 8",
        None,
        lambda one: one.conditions[0].MergeFrom(Condition(kind=Condition.KIND_DIVIDES)),
        "incomplete conditions",
    ),
    "adds a false condition": ("N 6", "-1 3", None, lambda one: one.conditions.append(FALSE), "unsound"),
    "names an unknown dim": ("N 6", "-1 3", None, lambda one: one.conditions.append(OTHER), "unsound"),
    "forgets that it holds without elements": (
        "N M",
        "N K",
        None,
        lambda one: one.conditions[0].ClearField("unless_zero"),
        "unsound",
    ),
    "claims completeness": (
        "N 4",
        "? 8",
        None,
        lambda one: setattr(one, "conditions_complete", True),
        "incomplete conditions",
    ),
    "widens the upper bound": ("2..4 6", "-1 4", None, set_bounds(3, 7), "loose"),
    "widens the lower bound": ("2..4 6", "-1 4", None, set_bounds(2, 6), "loose"),
    "leaves out the upper bound": ("2..4 6", "-1 4", None, set_bounds(3, None), "loose"),
    "narrows the upper bound": ("2..4 6", "-1 4", None, set_bounds(3, 5), "unsound"),
    "narrows the lower bound": ("2..4 6", "-1 4", None, set_bounds(4, 6), "unsound"),
    "narrows a symbol": ("N:0..4 6", "0 6", None, set_symbol("N", 3), "unsound"),
    "takes another symbol": ("N:0..4 M:0..4", "0 M", None, set_symbol("M", 4), "unsound"),
    "returns another number": ("2 6", "-1", None, set_number(13), "unsound"),
    "returns another expression": (
        "N 6",
        "-1",
        None,
        set_dim(PartialDim(index=0, expression=Expression(coefficient=5, factors=[Symbol(name="N")]))),
        "unsound",
    ),
    "returns another rank": ("N 6", "-1", None, lambda one: one.shape.dims.append(1), "unsound"),
    "narrows for an unknown rank": (None, "-1 2", None, set_bounds(1, None), "unsound"),
}


@pytest.mark.parametrize("name", PLANTED)
def test_answer_of_planted_wrong_solver_is_found(name: str):
    data, target, expected, change, fault = PLANTED[name]
    request, answer = ask(data, target, expected)
    found = find_instances(request)
    assert check(answer, found) == ("", "")
    change(answer)
    assert check(answer, found)[0] == fault


def test_answer_without_accepted_instance_is_found():
    question = write_question(RESHAPE, "5..7 12", "40 -1", True)
    found = find_instances(build_infer_request(ShapeRequest(question)))
    assert (len(found.accepted), check(None, found)) == (0, ("", ""))
    answer = InferShapeResponse(conditions_complete=True)
    answer.shape.dims.extend([40, 2])
    assert check(answer, found)[0] == "incomplete conditions"
    answer.conditions_complete = False
    assert check(answer, found)[0] == "loose"


def test_some_of_many_instances_are_tried():
    request, _ = ask("0..40 0..40 0..40", "? ? -1", None)
    found, other = (find_instances(request, Random(seed)) for seed in (1, 2))
    assert not found.complete
    assert 300 < len(found.accepted) + len(found.rejected) <= 600
    assert found.accepted != other.accepted


def test_checker_loads_no_code_of_the_rules():
    program = "import sys, verification.checker; print([name for name in sys.modules if 'tensor_reshape.' in name])"
    loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert "tensor_reshape.v1" in loaded
    assert "tensor_reshape.rules" not in loaded
    assert "tensor_reshape.wire" not in loaded
