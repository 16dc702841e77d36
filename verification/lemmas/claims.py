"""Defines lemmas, and proves them.

- A lemma is proved for all integers, of any size. Its claims are formulas over unbounded integers. A claim is valid if
  the solver finds that no values make it false.
- A lemma about products of any number of factors is proved by induction. The claim of a step has one variable for the
  product of all earlier factors, so it holds for every number of them. A claim that lists its factors holds for this
  number only.
- A lemma names the functions that use it, and their docstrings name the lemma.
- A claim that the prover cannot decide in time is open, and does not count as proved. Such a lemma names the test that
  covers it.
"""

from collections.abc import Callable, Iterator
from enum import Enum
from typing import Any, NamedTuple, TypeAlias

import z3

SECONDS = 20.0
"""The default time limit of the prover for one claim."""

Formula: TypeAlias = Any
"""A formula of z3, which has no types."""

Claims: TypeAlias = Iterator[tuple[str, Formula]]


class Verdict(Enum):
    """The result of the prover."""

    PROVED = "proved"
    REFUTED = "refuted"
    OPEN = "open"


class Lemma(NamedTuple):
    """A step of the solver.

    Attributes:
        name: the name that docstrings use.
        statement: the step in one sentence.
        used_by: the functions that use it: the module below `tensor_reshape.rules`, a colon, and the function's name.
        claim: yields the formulas of the lemma, each with a description.
        covered_by: another check of the claims that may stay open; empty if none may.
    """

    name: str
    statement: str
    used_by: tuple[str, ...]
    claim: Callable[[], Claims]
    covered_by: str = ""


class Finding(NamedTuple):
    """The result of the prover for one claim.

    Attributes:
        lemma: the lemma of the claim.
        claim: the description of the claim.
        verdict: the result of the prover.
        counterexample: values that make the claim false, if it is refuted.
    """

    lemma: Lemma
    claim: str
    verdict: Verdict
    counterexample: str = ""


def prove(lemma: Lemma, seconds: float = SECONDS) -> Iterator[Finding]:
    """Yields the result of the prover for each claim of a lemma."""
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
    """Returns a decorator that makes a lemma from a function that yields its claims; its docstring is the statement."""

    def make(claim: Callable[[], Claims]) -> Lemma:
        return Lemma(name, " ".join((claim.__doc__ or "").split()), used_by, claim, covered_by)

    return make


def declare(names: str) -> list[Formula]:
    """Returns an integer variable for each name."""
    return list(z3.Ints(names))


def multiply(factors: list[Formula]) -> Formula:
    """Returns the product; 1 if there are no factors."""
    product: Formula = z3.IntVal(1)
    for factor in factors:
        product *= factor
    return product
