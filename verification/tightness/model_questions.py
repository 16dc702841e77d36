"""Questions that exported models ask: their Reshape nodes, with what exporters and compilers tell of a dim.

`model_questions.jsonl` holds each question once, with names in the order in which they come: how many nodes ask it, and
in how many models. It was read from models by `scripts/tightness --read`; no weights are in it.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import count
from pathlib import Path
from random import Random
from typing import Any, NamedTuple, TypeAlias

from tensor_reshape.rules.dims import (
    ANY,
    AnyDim,
    Dim,
    Expression,
    Interval,
    Symbol,
    bound_dim,
    make_dim,
    make_expression,
)
from tensor_reshape.rules.notation import parse_dim
from tensor_reshape.rules.operations import RESHAPE
from tensor_reshape.rules.questions import AnyQuestion, Question

FILE = Path(__file__).with_name("model_questions.jsonl")
_LETTERS = "NMKLHWABCDEFG"
_BOUNDS = ((1, 8), (1, 64), (1, 512), (2, 128), (2, 2048), (1, 4096), (7, 448), (2, None), (1, None))
"""Batches, lengths and sides of pictures as people bound them, and what torch.export says: 0 and 1 are apart."""

Json: TypeAlias = dict[str, Any]


class ModelQuestion(NamedTuple):
    """One question.

    Attributes:
        data: what is known of the data.
        target: the items.
        special_zero: whether a 0 copies.
        nodes: how many Reshape nodes ask it.
        models: in how many models.
    """

    data: Sequence[AnyDim] | None
    target: Sequence[AnyDim]
    special_zero: bool
    nodes: int
    models: int

    @property
    def question(self) -> AnyQuestion:
        """The question by the rules of Reshape-1."""
        return Question(operation=RESHAPE, data=self.data, target=self.target, special_zero=self.special_zero)


def load_questions() -> list[ModelQuestion]:
    """Returns all questions of the file."""
    return [_load(json.loads(line)) for line in FILE.read_text(encoding="utf-8").splitlines()]


def read_models(paths: Iterable[Path]) -> Iterator[str]:
    """Yields the questions of models as lines of the file, the most frequent first."""
    from tensor_reshape.onnx import ModelError, check_model  # noqa: PLC0415 - needs the extra `onnx`, and nothing else does

    nodes, models = Counter[str](), Counter[str]()
    for path in paths:
        try:
            found = [finding.node for finding in check_model(path).findings]
        except ModelError:
            continue
        asked = Counter(_write(node.data, node.shape, node.special_zero) for node in found if node.shape is not None)
        nodes += asked
        models.update(asked.keys())
    for text, number in sorted(nodes.items(), key=lambda pair: (-pair[1], pair[0])):
        yield json.dumps({**json.loads(text), "nodes": number, "models": models[text]})


def vary(question: AnyQuestion, kind: str, random: Random) -> AnyQuestion:
    """Returns a question with its names as one of `KINDS` has them."""
    names = sorted({symbol.name for dim in _list_all(question) for symbol in _list_symbols(dim)})
    bounds = {name: Interval(*random.choice(_BOUNDS)) for name in names}
    tell = KINDS[kind]
    data, target = ([tell(dim, bounds) for dim in dims or ()] for dims in (question.data, question.target))
    return question._replace(data=None if question.data is None else data, target=target)


def _keep(dim: AnyDim, _bounds: Mapping[str, Interval]) -> AnyDim:
    return dim


def _bound(dim: AnyDim, bounds: Mapping[str, Interval]) -> AnyDim:
    """Returns a dim with bounds for each of its names."""
    if not isinstance(dim, Dim) or dim.expression is None:
        return dim
    _, factors, _, divisors = dim.expression
    above, below = ([Symbol(one.name, bounds[one.name]) for one in names] for names in (factors, divisors))
    expression = Expression(dim.expression.coefficient, tuple(above), dim.expression.divisor, tuple(below))
    return bound_dim(above[0].bounds, expression) if expression.symbol is not None else Dim(ANY, expression)


def _hide_name(dim: AnyDim, bounds: Mapping[str, Interval]) -> AnyDim:
    """Returns an interval in place of a name, the same one wherever it stands."""
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


def _hide_all(dim: AnyDim, _bounds: Mapping[str, Interval]) -> AnyDim:
    return dim if isinstance(dim, int) else None


KINDS: dict[str, Callable[[AnyDim, Mapping[str, Interval]], AnyDim]] = {
    "names as exported": _keep,
    "names with bounds": _bound,
    "intervals": _hide_name,
    "unknown dims": _hide_all,
}


def _list_all(question: AnyQuestion) -> list[AnyDim]:
    return [*(question.data or ()), *(question.target or ())]


def _list_symbols(dim: AnyDim) -> tuple[Symbol, ...]:
    return (*dim.expression.factors, *dim.expression.divisors) if isinstance(dim, Dim) and dim.expression else ()


def _load(record: Json) -> ModelQuestion:
    data, target = (
        None if dims is None else [parse_dim(dim) if isinstance(dim, str) else dim for dim in dims]
        for dims in (record["data"], record["shape"])
    )
    return ModelQuestion(data, target or [], record["special_zero"], record["nodes"], record["models"])


def _write(data: Sequence[AnyDim] | None, target: Sequence[AnyDim], special_zero: bool) -> str:
    names: dict[str, str] = {}
    letters = (letter + suffix for number in count() for suffix in [str(number or "")] for letter in _LETTERS)

    def rename(dim: AnyDim) -> int | str | None:
        for symbol in _list_symbols(dim):
            if symbol.name not in names:
                names[symbol.name] = next(letters)
        if not isinstance(dim, Dim) or dim.expression is None:
            return dim if isinstance(dim, int) else None
        one = dim.expression
        above, below = ([Symbol(names[part.name]) for part in parts] for parts in (one.factors, one.divisors))
        bounds = f":{dim.bounds.min}.." if dim.bounds.min else ""
        return f"{make_expression(one.coefficient, above, one.divisor, below)}{bounds}"

    record = {
        "data": None if data is None else [rename(dim) for dim in data],
        "shape": [rename(dim) for dim in target],
        "special_zero": special_zero,
    }
    return json.dumps(record)
