"""The lock files pin exactly the packages that the project requires, each file by its hash."""

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

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


def test_lock_script_leaves_up_to_date_lock_files_unchanged(tmp_path: Path):
    for name in LOCKS:
        shutil.copy(ROOT / name, tmp_path)
    environment = {**os.environ, "FOLDER": str(tmp_path), "VENV": sys.prefix}
    subprocess.run([ROOT / "scripts" / "lock"], env=environment, check=True)

    for name in LOCKS:
        assert read_locked(name, tmp_path).keys() == read_locked(name).keys(), name


@pytest.mark.parametrize("name", LOCKS)
def test_lock_file_pins_one_version_with_hashes_per_package(name: str):
    locked = read_locked(name)

    assert {operator.operator for text in locked for operator in Requirement(text).specifier} == {"=="}
    assert [text for text, hashes in locked.items() if not hashes] == []
    assert "://" not in (ROOT / name).read_text()


def test_lock_files_satisfy_image_and_build_requirements():
    extras = PROJECT["project"]["optional-dependencies"]
    of_the_image = [*PROJECT["project"]["dependencies"], *extras["server"], *extras["http"], *extras["tracing"]]

    assert find_unmet(of_the_image, "requirements.lock") == []
    assert find_unmet(PROJECT["build-system"]["requires"], "requirements-build.lock") == []


def find_unmet(wanted: list[str], lock: str) -> list[str]:
    """Returns the requirements that a lock file does not satisfy."""
    pins = read_pins(lock)

    def is_met(one: Requirement) -> bool:
        versions = [version for name, version in pins if name == canonicalize_name(one.name)]
        return bool(versions) and all(map(one.specifier.contains, versions))

    return [str(one) for one in map(Requirement, wanted) if not is_met(one)]
