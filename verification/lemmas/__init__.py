"""The lemmas of the solver's steps, as formulas over all integers that an SMT solver proves."""

from verification.lemmas import bounds, cancelling, conditions, emptiness, names
from verification.lemmas.claims import Lemma

LEMMAS = tuple(
    lemma
    for module in (cancelling, emptiness, bounds, names, conditions)
    for lemma in vars(module).values()
    if isinstance(lemma, Lemma)
)
"""All lemmas in the order of the modules."""
