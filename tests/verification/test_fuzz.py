"""A little of what `scripts/verify fuzz` does: any encoding is read as the generated class reads it."""

import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hypothesis_profiles import examples
from verification.fuzz.comparisons import Comparison
from verification.fuzz.plants import PLANTS, build_source
from verification.fuzz.runs import describe

ROOT = Path(__file__).parents[2]
INPUTS, PLANT_INPUTS = 4000, 20_000


@pytest.mark.parametrize("seed", ["a", "b"])
def test_encodings_are_read_as_the_generated_class_reads_them(seed: str):
    comparison = Comparison()
    assert [describe(0, mismatch) for mismatch in comparison.run(seed, INPUTS)] == []
    assert comparison.tally.inputs == INPUTS


@examples(300)
@given(st.integers(0, 2**64 - 1))
def test_new_encodings_are_read_as_the_generated_class_reads_them(seed: int):
    assert [describe(0, mismatch) for mismatch in Comparison().run(str(seed), 40)] == []


def test_each_bug_can_be_planted_in_the_reader():
    assert [plant.name for plant in PLANTS if plant.wrong not in build_source(plant)] == []


@pytest.mark.parametrize("words", ["what follows field 15", "header that is cached"])
def test_a_planted_bug_is_found(words: str):
    (index,) = [index for index, plant in enumerate(PLANTS) if words in plant.name]
    command = [sys.executable, "-m", "verification.fuzz.plants", str(index), "a", str(PLANT_INPUTS)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done
    assert "found after" in done.stdout
