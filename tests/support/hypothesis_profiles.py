"""Profiles of hypothesis, and the number of examples of a property test in each profile."""

from hypothesis import settings

QUICK, THOROUGH, FEW = "quick", "thorough", "few"
_DEFAULT = 100  # hypothesis's own number of examples, to which the count of a test refers

settings.register_profile(THOROUGH, max_examples=_DEFAULT, deadline=None)
settings.register_profile(QUICK, max_examples=25, deadline=None)  # during development
settings.register_profile(FEW, max_examples=10, deadline=None)  # for the same tests with other releases of libraries


def examples(count: int) -> settings:
    """Returns the settings of a test with `count` examples in the thorough profile, and fewer in the others."""
    return settings(max_examples=max(1, count * settings().max_examples // _DEFAULT), deadline=None)
