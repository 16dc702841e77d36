"""What is pinned: all that the project asks for, nothing else, and each file by its hash."""

import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from locks import LOCKS, ROOT, read_locked, read_pins

IN_THE_IMAGE = ("server", "tracing")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


@pytest.fixture(scope="module")
def written_again(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder where the script has written the locks again, beginning with those that are there."""
    folder = tmp_path_factory.mktemp("locks")
    for name in LOCKS:
        shutil.copy(ROOT / name, folder)
    subprocess.run(
        [ROOT / "scripts" / "lock"], env={**os.environ, "FOLDER": str(folder), "VENV": sys.prefix}, check=True
    )
    return folder


@pytest.mark.parametrize("name", LOCKS)
def test_the_locks_are_in_step_with_the_project(written_again: Path, name: str):
    assert read_locked(name, written_again).keys() == read_locked(name).keys()


@pytest.mark.parametrize("name", LOCKS)
def test_each_pin_is_one_version_with_the_hashes_of_its_files(name: str):
    locked = read_locked(name)

    assert {operator.operator for text in locked for operator in Requirement(text).specifier} == {"=="}
    assert [text for text, hashes in locked.items() if not hashes] == []


@pytest.mark.parametrize("name", LOCKS)
def test_no_lock_names_an_index(name: str):
    assert "://" not in (ROOT / name).read_text()


def test_all_that_the_image_may_be_told_to_need_is_pinned_within_its_bounds():
    extras = PROJECT["project"]["optional-dependencies"]
    wanted = [one for name in IN_THE_IMAGE for one in extras[name]]

    assert find_unmet([*PROJECT["project"]["dependencies"], *wanted], "requirements.lock") == []


def test_all_that_builds_the_project_is_pinned_within_its_bounds():
    assert find_unmet(PROJECT["build-system"]["requires"], "requirements-build.lock") == []


def find_unmet(wanted: list[str], lock: str) -> list[str]:
    """Returns the requirements that a lock does not meet."""
    pins = read_pins(lock)

    def is_met(one: Requirement) -> bool:
        versions = [version for name, version in pins if name == canonicalize_name(one.name)]
        return bool(versions) and all(map(one.specifier.contains, versions))

    return [str(one) for one in map(Requirement, wanted) if not is_met(one)]
