"""Queries from exported models: their Reshape nodes, with the bounds that exporters and compilers know of a dimension.

`model_questions.jsonl` has each query once, with the number of nodes and of models that have it, and without weights.
Each answer must be the hull of its instances: an instance is found for each end, and none outside.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from random import Random
from typing import NamedTuple, TypeAlias

from tensor_reshape.rules.dims import ANY, AnyDim, Dim, Interval, Symbol, bound_dim, format_dims, make_dim
from tensor_reshape.rules.questions import AnyQuestion
from tensor_reshape.v1.reshape_pb2 import InferShapeRequest
from tensor_reshape.wire.inference import read_question
from tensor_reshape.wire.json_messages import read_message
from tests.oracles.shape_instances import ask
from verification.instances import check_answer

_FILE = Path(__file__).with_name("model_questions.jsonl")
_BOUNDS = ((1, 8), (1, 64), (1, 512), (2, 128), (2, 2048), (1, 4096), (7, 448), (2, None), (1, None))
"""Usual bounds of batches, lengths and image sizes, and those of torch.export, which separates 0 and 1."""

Tell: TypeAlias = Callable[[AnyDim, Mapping[str, Interval]], AnyDim]


class Checked(NamedTuple):
    """The result of checking one answer.

    Attributes:
        problem: a description of the fault. The text is empty if there is no fault.
        has_complete_conditions: whether the answer says that its conditions are complete.
    """

    problem: str
    has_complete_conditions: bool


def check_models(kind: str, seed: str, varied: int) -> Iterator[Checked]:
    """Yields the findings about the answer to each query of models in one of `KINDS`.

    Args:
        kind: the known part of the dimensions.
        seed: the seed of all bounds.
        varied: the number of times that each query is made, with other bounds each time.
    """
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
    return [_load(line) for line in _FILE.read_text(encoding="utf-8").splitlines()]


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
