"""A lemma, and what a prover says of it.

- A lemma is proved for all integers, of any size: its claims are formulas over unbounded integers, valid where the
  solver finds that no values make them false.
- Of products of any number of factors a lemma is proved by induction: the claim of a step has one variable for the
  product of all factors so far, so it holds for every number of them. Claims that list factors hold for as many.
- A lemma names the functions that use it, and their docstrings name the lemma.
- What the prover cannot decide in its time is open: never taken for proved. Such a lemma names what covers it.
"""

from collections.abc import Callable, Iterator
from enum import Enum
from typing import Any, NamedTuple, TypeAlias

import z3

SECONDS = 20.0
"""How long the prover may take for one claim, by default."""

Formula: TypeAlias = Any
"""Of z3, which has no types."""

Claims: TypeAlias = Iterator[tuple[str, Formula]]


class Verdict(Enum):
    """What a prover says."""

    PROVED = "proved"
    REFUTED = "refuted"
    OPEN = "open"


class Lemma(NamedTuple):
    """A step that the solver takes.

    Attributes:
        name: by which docstrings call it.
        statement: the step in one sentence.
        used_by: the functions that take it: the module below `tensor_reshape.rules`, a colon, the name there.
        claim: yields the formulas that make it, each with what it is.
        covered_by: what else covers the claims that may stay open; empty where none may.
    """

    name: str
    statement: str
    used_by: tuple[str, ...]
    claim: Callable[[], Claims]
    covered_by: str = ""


class Finding(NamedTuple):
    """What the prover says of one claim.

    Attributes:
        lemma: of which it is a claim.
        claim: which one.
        verdict: what the prover says.
        counterexample: values that make it false, where it is refuted.
    """

    lemma: Lemma
    claim: str
    verdict: Verdict
    counterexample: str = ""


def prove(lemma: Lemma, seconds: float = SECONDS) -> Iterator[Finding]:
    """Yields what the prover says of each claim of a lemma."""
    for name, formula in lemma.claim():
        solver = z3.Solver()
        solver.set("timeout", round(seconds * 1000))
        solver.add(z3.Not(formula))
        result = solver.check()
        if result == z3.unsat:
            yield Finding(lemma, name, Verdict.PROVED)
        elif result == z3.sat:
            yield Finding(lemma, name, Verdict.REFUTED, _format_model(solver.model()))
        else:
            yield Finding(lemma, name, Verdict.OPEN)


def _format_model(model: Formula) -> str:
    return ", ".join(sorted(f"{name} = {model[name]}" for name in model))


def state(name: str, *used_by: str, covered_by: str = "") -> Callable[[Callable[[], Claims]], Lemma]:
    """Makes a lemma of a function that yields its claims; its docstring is the statement."""

    def make(claim: Callable[[], Claims]) -> Lemma:
        return Lemma(name, " ".join((claim.__doc__ or "").split()), used_by, claim, covered_by)

    return make


def declare(names: str) -> list[Formula]:
    """Returns an integer variable for each name."""
    return list(z3.Ints(names))


def multiply(factors: list[Formula]) -> Formula:
    """Returns the product; 1 where there are no factors."""
    product: Formula = z3.IntVal(1)
    for factor in factors:
        product *= factor
    return product
