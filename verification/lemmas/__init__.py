"""What each step of the solver rests on, as formulas over all integers, which an SMT solver proves."""

from verification.lemmas import bounds, cancelling, conditions, emptiness, names
from verification.lemmas.claims import Lemma

LEMMAS = tuple(
    lemma
    for module in (cancelling, emptiness, bounds, names, conditions)
    for lemma in vars(module).values()
    if isinstance(lemma, Lemma)
)
"""All of them, in the order of the modules."""
