"""Hypothesis profiles, and the number of examples that a property test gets in each of them."""

from hypothesis import settings

QUICK, THOROUGH, FEW = "quick", "thorough", "few"
_DEFAULT = 100  # the number of examples of hypothesis itself, to which the count of a test refers

settings.register_profile(THOROUGH, max_examples=_DEFAULT, deadline=None)
settings.register_profile(QUICK, max_examples=25, deadline=None)  # while somebody works
settings.register_profile(FEW, max_examples=10, deadline=None)  # the same tests again, with other releases of libraries


def examples(count: int) -> settings:
    """Returns the settings of a test that takes `count` examples in the thorough profile, and fewer in the others."""
    return settings(max_examples=max(1, count * settings().max_examples // _DEFAULT), deadline=None)
