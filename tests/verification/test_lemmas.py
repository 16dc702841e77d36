"""The lemmas of the solver: proved, referenced by its functions, and refuted if they are false."""

import inspect
import re
from collections.abc import Iterator
from importlib import import_module
from operator import attrgetter
from pathlib import Path

import pytest

from tensor_reshape import rules
from verification.lemmas import LEMMAS, Claims, Lemma, Verdict, declare, prove, state

PACKAGE = "tensor_reshape.rules"
NAMED = re.compile(r"^ *See the lemmas? ([\w, \n-]+)\s+in\s+`verification/lemmas\.py`\.$", re.MULTILINE)
ROOT = Path(__file__).parents[2]


def find_names(text: str) -> Iterator[str]:
    """Yields the lemmas in a docstring."""
    return (name for match in NAMED.finditer(text) for name in re.split(r",\s+|\s+and\s+", match[1]))


@pytest.mark.parametrize("lemma", LEMMAS, ids=lambda lemma: lemma.name)
def test_each_lemma_is_proved_or_covered_by_another_test(lemma: Lemma):
    verdicts = {finding.claim: finding.verdict for finding in prove(lemma, 0.5 if lemma.covered_by else 60)}
    # Other tests cover the lemmas that may stay open. None is false.
    admitted = {Verdict.PROVED, Verdict.OPEN} if lemma.covered_by else {Verdict.PROVED}
    assert verdicts
    assert set(verdicts.values()) <= admitted, verdicts


def test_function_docstrings_name_the_lemmas_that_they_use():
    used = sorted((user, lemma.name) for lemma in LEMMAS for user in lemma.used_by)
    named = []
    for user in {user for user, _ in used}:
        module, _, name = user.partition(":")
        function = attrgetter(name)(import_module(f"{PACKAGE}.{module}"))
        named += [(user, lemma) for lemma in find_names(inspect.getdoc(function) or "")]
    assert sorted(named) == used

    sources = "\n".join(path.read_text() for path in Path(rules.__file__).parent.rglob("*.py"))
    assert sorted(find_names(sources)) == sorted(name for _, name in used)


def test_lemmas_have_unique_names_and_existing_test_files():
    assert len({lemma.name for lemma in LEMMAS}) == len(LEMMAS)
    assert all((ROOT / lemma.covered_by).is_file() for lemma in LEMMAS if lemma.covered_by)


@state("planted", "nowhere")
def planted() -> Claims:
    """A factor of both sides cancels, even if it is 0."""
    a, x, y = declare("a x y")
    yield "one factor", (a * x == a * y) == (x == y)


def test_proof_of_a_false_lemma_returns_a_counterexample():
    (finding,) = prove(planted)
    assert finding.verdict is Verdict.REFUTED
    assert "a = 0" in finding.counterexample


@state("too-hard", "nowhere")
def too_hard() -> Claims:
    """No sum of two cubes is a cube, in a form that no prover decides in a tenth of a second."""
    x, y, z, n = declare("x y z n")
    yield "Fermat", (x + 1) ** (n + 3) + (y + 1) ** (n + 3) != (z + 1) ** (n + 3)


def test_lemma_that_times_out_is_not_reported_as_proved():
    (finding,) = prove(too_hard, 0.1)
    assert finding.verdict is not Verdict.PROVED
