"""Makes as many shape queries as there is time for, and compares the answers with instances and with each other.

Two of three queries are small enough to try their instances one by one. The others cover the whole range of the
protobuf definition. An exception that is not a rejection is a violation. A small query's answer is sound if it contains
each accepted instance, with the symbols and conditions of the answer. If the conditions are complete, every rejected
instance must violate one. If all instances can be tried, each end of the answer must be reached by one (tight). All
queries go over the wire and back, as single queries and in batches with references between items. Their answers must be
those of `infer_locally`. All queries follow from the seed.

With `--models` the program makes the recorded queries of models instead: their Reshape nodes, with the bounds that
exporters and compilers know of a dimension. `model_questions.jsonl` has each query once, with the number of nodes and
of models that have it. An instance must reach each end of an answer, and none may be outside.
"""

import argparse
import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from random import Random
from typing import NamedTuple, TypeAlias

from tensor_reshape.rules.batches import BatchItem
from tensor_reshape.rules.dims import (
    ANY,
    AnyDim,
    Dim,
    Expression,
    Interval,
    Symbol,
    bound_dim,
    format_dims,
    make_dim,
    make_expression,
    name_dim,
)
from tensor_reshape.rules.dtypes import DataType
from tensor_reshape.rules.errors import InvalidRequestError
from tensor_reshape.rules.inference import answer_question
from tensor_reshape.rules.limits import MAX_DIM
from tensor_reshape.rules.operations import DYNAMIC_RESHAPE, ONNX_RESHAPE, RESHAPE, STATIC_RESHAPE
from tensor_reshape.rules.questions import AnyQuestion, Question, ShapeAnswer, ShapeRequest
from tensor_reshape.v1.reshape_pb2 import InferShapeRequest
from tensor_reshape.wire.inference import read_question
from tensor_reshape.wire.json_messages import read_message
from tests.oracles.round_trips import check_round_trips, format_item
from tests.oracles.shape_instances import ask, find_accepted, find_fault
from verification.checker import Found
from verification.instances import check_answer
from verification.tasks import Tally, Task, add_options, run_batches

_OPERATIONS = (STATIC_RESHAPE, DYNAMIC_RESHAPE, RESHAPE, RESHAPE, ONNX_RESHAPE)
_NUMBERS = (0, 1, 1, 2, 2, 3, 4, 5, 6)
_NAMES = "NMK"


@dataclass(frozen=True, slots=True, kw_only=True)
class Style:
    rank: int = 3  # the maximum rank of the data and number of items
    named: float = 0.0  # the share of symbols among the unknown dimensions
    products: float = 0.0  # the share of expressions among the symbols
    open: float = 0.2  # the share of intervals without an upper end
    unknown: float = 0.15  # the share of unknown items
    expected: float = 0.15  # the share of queries with an expected shape
    rankless: float = 0.0  # the share of queries whose data has an unknown rank


STYLES = {
    "plain": Style(),
    "bounded": Style(open=0.0),
    "high rank": Style(rank=4, open=0.1, expected=0.1),
    "symbols": Style(named=0.6, open=0.1),
    "repeated symbols": Style(named=0.95, open=0.0, unknown=0.1, expected=0.05),
    "expressions": Style(named=0.8, products=0.5, open=0.1),
    "unknown items": Style(unknown=0.6, open=0.05),
    "expected": Style(expected=1.0, unknown=0.3, open=0.1),
    "unknown rank": Style(rankless=1.0, named=0.2),
}


def choose_question(random: Random, style: Style) -> AnyQuestion:
    data = None if random.random() < style.rankless else _choose_dims(random, style)
    target: list[AnyDim] | None = [_choose_item(random, style) for _ in range(random.randint(0, style.rank))]
    expected = [_choose_dim(random, style) for _ in target or ()] if random.random() < style.expected else None
    if expected is not None and random.random() < style.unknown / 2:
        target = None
    return Question(
        operation=random.choice(_OPERATIONS),
        data=data,
        target=target,
        special_zero=random.random() < 0.6,
        expected=expected,
    )


def _choose_dims(random: Random, style: Style) -> list[AnyDim]:
    return [_choose_dim(random, style) for _ in range(random.randint(0, style.rank))]


def _choose_dim(random: Random, style: Style) -> AnyDim:
    if random.random() < 0.35:
        return random.choice(_NUMBERS)
    low = random.choice((0, 0, 0, 1, 1, 2, 3))
    high = None if random.random() < style.open else low + random.choice((0, 1, 1, 1, 2))
    if random.random() >= style.named:
        return make_dim(Interval(low, high))
    if random.random() < style.products:
        return _choose_expression(random)
    return name_dim(random.choice(_NAMES), low if random.random() < 0.5 else 0, high)


def _choose_expression(random: Random) -> Dim:
    symbols = [Symbol(name, Interval(0, 4)) for name in _NAMES]
    above, below = random.choices(symbols, k=random.randint(1, 2)), random.choices(symbols, k=random.random() < 0.2)
    bounds = Interval(random.choice((0, 0, 1)), None)
    return Dim(bounds, make_expression(random.choice((1, 1, 2, 4)), above, random.choice((1, 1, 1, 2)), below))


def _choose_item(random: Random, style: Style) -> AnyDim:
    if random.random() < style.unknown:
        return None
    kind = random.random()
    if kind < 0.3:
        return -1
    if kind < 0.55:
        return 0
    return random.choice((1, 2, 3, 4, 6)) if kind < 0.75 else _choose_dim(random, style)


_WIDE_NAMES = ("N", "N", "M", "M", "K", "batch", "gr\u00f6\u00dfe", "\u540d" * 64, "N" * 64, "a b", "*", "4")
_BAD_NAMES = ("", "\n", "\u202e", "N" * 65, "\x00")
_RANKS = (0, 1, 1, 2, 2, 2, 3, 3, 4)
_RARE_RANKS = (5, 12, 13, 64, 65, 70)
_SMALL = (0, 1, 1, 2, 2, 3, 4, 6, 8, 12)
_MIN = -(2**63)
_RARE = 0.04


class Wide:
    def __init__(self, random: Random) -> None:
        self._random = random
        self._is_lawful = True

    def choose_item(self, index: int) -> BatchItem:
        random = self._random
        self._is_lawful = random.random() < 0.8
        data_from = self._choose_link(index) if random.random() < 0.25 else None
        data = self._choose_data() if data_from is None or random.random() < _RARE else None
        target = None if random.random() < 0.05 else self._choose_target(data)
        question = Question(
            operation=random.choice(_OPERATIONS),
            data=data,
            target=target,
            special_zero=None if random.random() < _RARE / 2 else random.random() < 0.6,
            data_type=random.choice(list(DataType)) if random.random() < 0.15 else None,
            expected=self._choose_expected(target) if random.random() < 0.15 else None,
        )
        return BatchItem(ShapeRequest(question, random.random() < 0.5), data_from)

    def _choose_link(self, index: int) -> int:
        random = self._random
        if self._is_lawful and index:
            return random.randrange(index)
        return random.choice((index, index + 1, -1, -(2**31), 2**31 - 1, 0))

    def _choose_data(self) -> list[AnyDim] | None:
        return None if self._random.random() < 0.1 else [self._choose_dim() for _ in range(self._choose_rank())]

    def _choose_rank(self) -> int:
        return self._random.choice(_RANKS if self._random.random() > _RARE else _RARE_RANKS)

    def _choose_target(self, data: Sequence[AnyDim] | None) -> list[AnyDim]:
        random, items = self._random, list[AnyDim]()
        for index in range(len(data) if data and random.random() < 0.3 else self._choose_rank()):
            kind = random.random()
            if kind < 0.3:
                items.append(0)
            elif kind < 0.5:
                items.append(-1 if -1 not in items or not self._is_lawful else 1)
            elif kind < 0.7 and data and index < len(data):
                items.append(data[index])
            else:
                items.append(self._choose_dim())
        return items

    def _choose_expected(self, target: Sequence[AnyDim] | None) -> list[AnyDim]:
        rank = self._choose_rank() if target is None or self._random.random() < 0.1 else len(target)
        return [None if self._random.random() < 0.4 else self._choose_dim() for _ in range(rank)]

    def _choose_dim(self) -> AnyDim:
        kind = self._random.random()
        if kind < 0.4:
            return self._choose_number(_MIN)
        if kind < 0.5:
            return None
        if kind < 0.62:
            return Dim(self._choose_bounds())
        if kind < 0.8:
            symbol = self._choose_symbol()
            return Dim(symbol.bounds, Expression(1, (symbol,)))
        return self._choose_expression()

    def _choose_number(self, low: int) -> int:
        random = self._random
        if not self._is_lawful and random.random() < 0.2:
            return random.choice((low, -2, -1, random.randint(low, MAX_DIM)))
        if random.random() < 0.75:
            return random.choice(_SMALL)
        power = 1 << random.randint(3, 63)
        return int(min(power + random.choice((-1, 0, 0, 1)), MAX_DIM))

    def _choose_bounds(self) -> Interval:
        random = self._random
        if random.random() < 0.3:
            return Interval(0, None)
        low = self._choose_number(_MIN)
        if random.random() < 0.4:
            return Interval(low, None)
        high = self._choose_number(_MIN)
        return Interval(low, high) if not self._is_lawful else Interval(min(low, high), max(low, high))

    def _choose_symbol(self) -> Symbol:
        bad = not self._is_lawful and self._random.random() < 0.1
        bounds = self._choose_bounds() if self._random.random() < 0.4 else Interval(0, None)
        return Symbol(self._random.choice(_BAD_NAMES if bad else _WIDE_NAMES), bounds)

    def _choose_expression(self) -> Dim:
        random = self._random
        above = [self._choose_symbol() for _ in range(random.choice((0, 1, 1, 1, 2, 2, 3)))]
        below = [self._choose_symbol() for _ in range(random.choice((0, 0, 0, 0, 1, 2)))]
        if not above and not below and self._is_lawful:
            above = [self._choose_symbol()]
        if above and random.random() < _RARE:
            above *= random.choice((8, 30, 64, 65))
        numbers = [self._choose_number(_MIN) or self._is_lawful for _ in range(2)]
        bounds = self._choose_bounds() if random.random() < 0.3 else Interval(0, None)
        return Dim(
            bounds,
            Expression(int(numbers[0]), tuple(above), int(numbers[1]) if random.random() < 0.5 else 1, tuple(below)),
        )


BATCH = 500
_ITEMS = 8  # in each batch that is sent


def choose_request(random: Random) -> tuple[str, ShapeRequest]:
    """Returns a small query with all its options, and the name of its style."""
    name = random.choice(list(STYLES))
    question = choose_question(random, STYLES[name])
    return name, ShapeRequest(question, random.random() < 0.5)


def prove(request: ShapeRequest, random: Random) -> tuple[list[str], Found, str]:
    """Returns the outcomes of one query, its instances, and what is wrong, if anything."""
    found = find_accepted(request.question, random)
    try:
        answer = infer(request)
    except Exception as error:  # noqa: BLE001, every exception is reported
        return ["crashed"], found, repr(error)
    outcome, problem = _judge(answer, found)
    if answer is None:
        return [outcome], found, problem
    question = request.question
    is_open = question.data is None or question.target is None or None in question.target
    kind = "unknown items or rank" if is_open else "known items"
    outcomes = [outcome, f"{kind}, conditions complete: {answer.conditions_complete}"]
    return outcomes, found, problem


def _judge(answer: ShapeAnswer | None, found: Found) -> tuple[str, str]:
    kind, problem = find_fault(answer, found)
    if problem:
        return kind, problem
    problem = _check_groups(answer, found)
    if problem:
        return "unsound", problem
    if answer is None:
        return "rejected", ""
    return "sound and tight" if found.complete else "sound", ""


def infer(request: ShapeRequest) -> ShapeAnswer | None:
    """Returns the product's answer, or None for a rejection."""
    try:
        return answer_question(request)
    except InvalidRequestError:
        return None


def _check_groups(answer: ShapeAnswer | None, found: Found) -> str:
    for group in () if answer is None else answer.groups:
        for instance in found.accepted:
            left, right = (
                [instance.data[index] for index in group.data],
                [instance.output[index] for index in group.output],
            )
            if 0 not in instance.data and prod(left) != prod(right):
                return f"the group {group} of {instance} has different products"
    return ""


def run_task(task: Task) -> Tally:
    """Runs the queries of one task, and sends them in batches."""
    seed, number, questions = task
    random, tally = Random(seed), Tally(questions)
    for begin in range(0, questions, _ITEMS):
        wide, items = Wide(random), list[BatchItem]()
        for index in range(min(_ITEMS, questions - begin)):
            if random.random() < 1 / 3:
                tally.outcomes["of wide"] += 1
                items.append(wide.choose_item(index))
            else:
                items.append(BatchItem(_prove_small(random, number, tally)))
        tally.findings += [f"batch {number}: different: {problem}" for problem in check_round_trips(items, 1)]
    return tally


def _prove_small(random: Random, number: int, tally: Tally) -> ShapeRequest:
    name, request = choose_request(random)
    outcomes, found, problem = prove(request, random)
    tally.outcomes.update([f"of {name}", *[f"of {name}, {outcome}" for outcome in outcomes[1:]], *outcomes])
    tally.outcomes["instances tried"] += len(found.accepted) + len(found.rejected)
    if problem:
        tally.findings.append(f"batch {number}: {outcomes[0]}: {format_item(BatchItem(request))}: {problem}")
    return request


_MODELS = Path(__file__).with_name("model_questions.jsonl")
_BOUNDS = ((1, 8), (1, 64), (1, 512), (2, 128), (2, 2048), (1, 4096), (7, 448), (2, None), (1, None))
"""Usual bounds of batches, lengths and image sizes, and those of torch.export, which separates 0 and 1."""

Tell: TypeAlias = Callable[[AnyDim, Mapping[str, Interval]], AnyDim]


class Checked(NamedTuple):
    problem: str  # a description of the fault. The text is empty if there is no fault
    has_complete_conditions: bool  # whether the answer says that its conditions are complete


def check_models(kind: str, seed: str, varied: int) -> Iterator[Checked]:
    """Yields the findings about the answer to each query of models in one of `KINDS`."""
    random = Random(f"{seed}-{kind}-0")
    for asked in load_questions():
        for _ in range(varied if kind in _VARIED else 1):
            question = _vary(asked, kind, random)
            answer = ask(question)
            findings = check_answer(question, answer)
            problems = "; ".join([findings.wrong] if findings.wrong else findings.loose)
            dims = "a rejection" if answer is None else format_dims(answer.dims)
            asked_as = f"{format_dims(question.data)} under {format_dims(question.target)}"
            problem = f"{asked_as} is {dims}: {problems}" if problems else ""
            yield Checked(problem, answer is None or answer.conditions_complete)


def load_questions() -> list[AnyQuestion]:
    """Returns all queries of the file, with the symbols that the exporters wrote."""
    return [_load(line) for line in _MODELS.read_text(encoding="utf-8").splitlines()]


def _load(line: str) -> AnyQuestion:
    return read_question(read_message(InferShapeRequest, json.loads(line)["question"])).question


def _vary(question: AnyQuestion, kind: str, random: Random) -> AnyQuestion:
    data, target = question.data, question.target or ()
    names = sorted({symbol.name for dim in (*(data or ()), *target) for symbol in _list_symbols(dim)})
    bounds = {name: Interval(*random.choice(_BOUNDS)) for name in names}
    tell = KINDS[kind]
    bounded = None if data is None else [tell(dim, bounds) for dim in data]
    return question._replace(data=bounded, target=[tell(dim, bounds) for dim in target])


def _list_symbols(dim: AnyDim) -> tuple[Symbol, ...]:
    return (*dim.expression.factors, *dim.expression.divisors) if isinstance(dim, Dim) and dim.expression else ()


def _bound(dim: AnyDim, bounds: Mapping[str, Interval]) -> AnyDim:
    """Returns a dimension with bounds for each of its symbols."""
    if not isinstance(dim, Dim) or dim.expression is None:
        return dim
    above, below = (
        tuple(Symbol(one.name, bounds[one.name]) for one in names)
        for names in (dim.expression.factors, dim.expression.divisors)
    )
    expression = dim.expression._replace(factors=above, divisors=below)
    return bound_dim(above[0].bounds, expression) if expression.symbol is not None else Dim(ANY, expression)


def _hide_name(dim: AnyDim, bounds: Mapping[str, Interval]) -> AnyDim:
    """Replaces a symbol by an interval, which is the same everywhere."""
    if not isinstance(dim, Dim) or dim.expression is None or dim.expression.divisors or dim.expression.divisor != 1:
        return None if isinstance(dim, Dim) else dim
    low = high = dim.expression.coefficient
    is_open = False
    for symbol in dim.expression.factors:
        own = bounds[symbol.name]
        low *= own.min
        high *= own.max or 1
        is_open = is_open or own.max is None
    return make_dim(Interval(low, None if is_open else high))


KINDS: dict[str, Tell] = {
    "names as exported": lambda dim, _: dim,
    "names with bounds": _bound,
    "intervals": _hide_name,
    "unknown dims": lambda dim, _: dim if isinstance(dim, int) else None,
}
"""The kinds of knowledge about a dimension whose symbols have bounds."""

_VARIED = frozenset({"names with bounds", "intervals"})  # the kinds whose queries are different each time


_MODELS_SEED = "1"  # a regression: the same bounds each time


def main() -> int:
    """Runs the comparison. The status is 1 if there is a violation."""
    parser = argparse.ArgumentParser("scripts/verify prove", description=__doc__)
    parser.add_argument("questions", nargs="?", type=int, default=1_000_000, help="number of queries")
    add_options(parser)
    parser.add_argument("--models", action="store_true", help="make the recorded queries of models instead")
    arguments = parser.parse_args()
    if not arguments.models:
        return run_batches(run_task, arguments.questions, BATCH, arguments)
    is_tight = True
    for kind in KINDS:
        found = list(check_models(kind, _MODELS_SEED, varied=5))
        wrong = [one.problem for one in found if one.problem]
        is_tight = is_tight and not wrong
        print(f"{kind}: {len(found)} answers, {len(wrong)} not tight,", end=" ")
        print(f"{sum(one.has_complete_conditions for one in found)} with complete conditions", *wrong, sep="\n  ")
    return 0 if is_tight else 1


if __name__ == "__main__":
    sys.exit(main())
