"""What each step of the solver rests on, as formulas over all integers, which an SMT solver proves."""

from verification.lemmas import bounds, cancelling, emptiness, names

LEMMAS = (*cancelling.LEMMAS, *emptiness.LEMMAS, *bounds.LEMMAS, *names.LEMMAS)
"""All of them."""
