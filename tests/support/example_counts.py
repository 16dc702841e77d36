"""How many examples a property is tried with: fewer where the same tests run again beside other releases."""

from hypothesis import settings

_DEFAULT = 100  # of hypothesis, for which a test states its count


def draw(count: int) -> settings:
    """Returns the settings of a test with so many examples; of a profile with fewer than usual, as much fewer."""
    return settings(max_examples=max(1, count * settings().max_examples // _DEFAULT), deadline=None)
