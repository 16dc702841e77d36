"""The changes of a module, samples of them, and their trial against tests in a copy of a repository."""

import subprocess
from pathlib import Path

import pytest

from verification.mutants import PACKAGES, ROOT, Copy, Mutant, draw_sample, find_mutants

SOURCE = '''"""A docstring with 1 number."""

LIMITS: tuple[int, int] = (1, 2)


def add(left: int, right: int = 3) -> int:
    """Adds."""
    if left < right and not left:
        raise ValueError(f"{left + 4} is small")
    return max(left, right) + left
'''
# `scripts/test` of a repository that needs no environment
SCRIPT = """#!/bin/sh
python3 -c 'import one; assert one.add(5, 2) == 10' || { echo 'FAILED tests/test_one.py::test_add'; exit 1; }
"""


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "repository"
    (folder / "scripts").mkdir(parents=True)
    (folder / "one.py").write_text("nothing = None\n")
    (folder / "scripts/test").write_text(SCRIPT)
    (folder / "scripts/test").chmod(0o755)
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@example.org"]
    for command in (["init", "--quiet"], ["add", "."], ["commit", "--quiet", "--message", "one"]):
        subprocess.run([*git, *command], cwd=folder, check=True)
    (folder / "one.py").write_text(SOURCE)  # not committed
    return folder


def find(repository: Path) -> dict[tuple[str, str], Mutant]:
    return {(mutant.old, mutant.new): mutant for mutant in find_mutants(repository, ".")}


def test_each_kind_of_change_is_found(repository: Path):
    assert {key: mutant.kind for key, mutant in find(repository).items()} == {
        ("1", "2"): "number",
        ("2", "3"): "number",
        ("3", "4"): "number",
        ("left < right and not left", "(left < right or not left)"): "boolean",
        ("left < right", "(left <= right)"): "compare",
        ("not left", "(left)"): "boolean",
        ("left < right and not left", "True"): "condition",
        ("left < right and not left", "False"): "condition",
        ('raise ValueError(f"{left + 4} is small")', "pass"): "removed",
        ("return max(left, right) + left", "return None"): "returned",
        ("max(left, right) + left", "(max(left, right) - left)"): "arithmetic",
        ("max", "min"): "builtin",
    }


def test_sample_has_at_most_one_mutant_of_a_line(repository: Path):
    mutants = find_mutants(repository, ".")
    samples = [draw_sample(mutants, 5, seed) for seed in range(20)]
    assert samples == [draw_sample(mutants, 5, seed) for seed in range(20)]
    assert len({frozenset(sample) for sample in samples}) > 1
    assert all(len({mutant.line for mutant in sample}) == len(sample) == 5 for sample in samples)


def test_mutant_is_tried_in_a_copy_and_leaves_no_trace(repository: Path, tmp_path: Path):
    mutants = find(repository)
    (repository / "one.py").write_text(SOURCE)
    copy = Copy(repository, tmp_path / "copy")
    outcomes = [copy.try_mutant(mutants[key], ["scripts/test"], 60).result for key in (("max", "min"), ("3", "4"))]
    assert outcomes == ["failed", "passed"]
    assert (repository / "one.py").read_text() == (copy.folder / "one.py").read_text() == SOURCE


def test_each_package_has_modules_and_mirroring_tests():
    folders = [folder for package in PACKAGES.values() for folder in package]
    assert [folder for folder in folders if not [*(ROOT / folder).glob("*.py")]] == []
    mirrors = [ROOT.joinpath("tests", *Path(folder).parts[2:]) for folder in folders]
    assert [mirror for mirror in mirrors if not [*mirror.glob("test_*.py")]] == []
