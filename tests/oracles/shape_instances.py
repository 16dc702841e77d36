"""Oracle for shape inference: `verification.checker`, for queries and results in the types of the rules."""

from collections.abc import Sequence
from random import Random

from tensor_reshape.rules.errors import InvalidRequestError
from tensor_reshape.rules.inference import infer
from tensor_reshape.rules.questions import AnyQuestion, ShapeAnswer, ShapeRequest
from tensor_reshape.wire.inference import build_infer_request, build_infer_response
from tensor_reshape.wire.methods import OPERATION_NUMBERS
from verification.checker import BUDGET, MAX_DIM, Dims, Found, Item, check, find_instances, reshape


def ask(question: AnyQuestion) -> ShapeAnswer | None:
    """Returns the product's answer, or None for a rejection."""
    try:
        return infer(question)
    except InvalidRequestError:
        return None


def answer_concrete(question: AnyQuestion, data: Dims, items: Sequence[Item]) -> Dims | None:
    """Returns the output of one instance, or None if the rules reject it."""
    return reshape(OPERATION_NUMBERS[question.operation], bool(question.special_zero), data, items)


def find_accepted(question: AnyQuestion, random: Random | None = None, budget: int = BUDGET) -> Found:
    """Tries the instances of a query. If there are more than the budget, `random` chooses some."""
    # Rule 2 rejects an item above the largest dim in every instance. A message cannot hold such an item.
    if any(isinstance(item, int) and item > MAX_DIM for item in question.target or ()):
        return Found([], [], complete=False)
    return find_instances(build_infer_request(ShapeRequest(question)), random, budget)


def find_fault(answer: ShapeAnswer | None, found: Found) -> tuple[str, str]:
    """Returns the kind of fault of an answer or a rejection, and a text about it. Both are empty without a fault."""
    return check(None if answer is None else build_infer_response(answer), found)
