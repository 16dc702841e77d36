"""The part of `scripts/verify prove` that makes the recorded queries of models."""

import pytest

from verification.prove import KINDS, check_models


@pytest.mark.parametrize("kind", KINDS)
def test_inferred_shapes_for_model_queries_are_tight(kind: str):
    problems = list(check_models(kind, "test", varied=1))
    assert len(problems) == 778
    assert [one.problem for one in problems if one.problem] == []
