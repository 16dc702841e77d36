"""A little of what `scripts/fuzz` does at length: whatever the encoding, it is read as the generated class reads it."""

import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from verification.fuzz.comparisons import Comparison
from verification.fuzz.plants import PLANTS, Plant, build_source
from verification.fuzz.runs import describe

ROOT = Path(__file__).parents[2]
INPUTS, PLANT_INPUTS = 4000, 20_000


@pytest.mark.parametrize("seed", ["a", "b"])
def test_any_encoding_is_read_as_the_generated_class_reads_it(seed: str):
    comparison = Comparison()
    assert [describe(0, mismatch) for mismatch in comparison.run(seed, INPUTS)] == []
    assert comparison.tally.inputs == INPUTS


@settings(max_examples=300, deadline=None)
@given(st.integers(0, 2**64 - 1))
def test_encodings_that_no_run_before_had_are_read_as_the_generated_class_reads_them(seed: int):
    assert [describe(0, mismatch) for mismatch in Comparison().run(str(seed), 40)] == []


@pytest.mark.parametrize("plant", PLANTS, ids=lambda plant: plant.name)
def test_a_bug_can_be_planted_in_the_reader(plant: Plant):
    assert build_source(plant).count(plant.wrong) > 0


@pytest.mark.parametrize(
    "words", ["what follows field 15", "above 32 bits", "header that is cached", "follows elements"]
)
def test_a_planted_bug_is_found(words: str):
    (index,) = [index for index, plant in enumerate(PLANTS) if words in plant.name]
    command = [sys.executable, "-m", "verification.fuzz.plants", str(index), "a", str(PLANT_INPUTS)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done
    assert "found after" in done.stdout
