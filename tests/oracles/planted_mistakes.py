"""Mistakes of the kind that programmers make, planted in the second implementation one at a time.

Each line of `planted_mistakes.jsonl` is a mistake. For the first sixty, a random search, which knew nothing of the
conformance suite, found the `query`: the smallest of 35,000 queries for which the implementation and the mistaken one
have different answers. The others are mistakes that the suite did not find once. Their queries are those of its cases.
"""

import json
import sys
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

from tensor_reshape.conformance.cases import Case
from tensor_reshape.conformance.verdicts import CaseVerdict, judge
from tensor_reshape.wire.json_messages import Json
from tests.oracles import second_implementation
from tests.oracles.second_implementation import answer

_FOLDER = Path(__file__).parent
SOURCE = (_FOLDER / "second_implementation.py").read_text()


class Mistake(NamedTuple):
    """A mistake: the rule that the programmer gets wrong, the text to replace, and a query that shows the mistake."""

    name: str
    rule: str
    old: str
    new: str
    query: Json


def load_mistakes() -> list[Mistake]:
    lines = (_FOLDER / "planted_mistakes.jsonl").read_text().splitlines()
    return [Mistake(**json.loads(line)) for line in lines]


@cache
def plant(mistake_name: str, old: str, new: str) -> Callable[[Json], Json]:
    """Returns the function `answer` of the implementation with a mistake."""
    module = ModuleType(f"{second_implementation.__name__}, but {mistake_name}")
    sys.modules[module.__name__] = module  # NamedTuple looks for the module of a class
    exec(compile(SOURCE.replace(old, new), module.__name__, "exec"), module.__dict__)
    planted: Callable[[Json], Json] = module.answer
    return planted


def answer_with(mistake: Mistake, query: Json) -> Json | None:
    """Returns the answer with a mistake, or None if the mistaken implementation crashes."""
    try:
        return plant(mistake.name, mistake.old, mistake.new)(query)
    except Exception:  # noqa: BLE001 - a mistake can raise anything
        return None


def find_case(mistake: Mistake, cases: Iterable[Case]) -> Case | None:
    """Returns a case that finds a mistake: without the mistake the answer agrees, and with it the answer differs."""
    for case in sorted(cases, key=lambda case: case.rule != mistake.rule):
        given, plain = answer_with(mistake, case.query), answer(case.query)
        if given == plain or (given is not None and not judge(case, given).verdict.is_difference):
            continue
        if judge(case, plain).verdict is CaseVerdict.AGREES:
            return case
    return None
