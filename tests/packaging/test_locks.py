"""The lock files pin exactly the packages that the project requires, each file by its hash."""

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from deployment_files import LOCKS, ROOT, read_locked, read_pins

VERSIONS = ROOT / "docs/reference/supported-versions.md"
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

    # an extra of the project may include another one
    return [str(one) for one in map(Requirement, wanted) if one.name != "tensor-reshape" and not is_met(one)]


@pytest.mark.parametrize("name", LOCKS)
@pytest.mark.parametrize("platform", ["aarch64-manylinux_2_28", "x86_64-manylinux_2_28"])
@pytest.mark.parametrize("python", ["3.11", "3.13"])  # the oldest, and that of the image
def test_every_locked_package_has_a_wheel(name: str, platform: str, python: str, tmp_path: Path):
    options = ("--python-platform", platform, "--python-version", python, "--only-binary", ":all:", "--no-deps")
    command = (sys.executable, "-m", "uv", "pip", "install", "--dry-run", "--quiet", "--target", tmp_path, *options)
    subprocess.run([*command, "--require-hashes", "--requirements", ROOT / name], check=True)


def test_page_of_supported_versions_names_the_oldest_and_locked_versions():
    rows = dict(re.findall(r"^\| (\w+) \| ([^|]*\|[^|]*)", VERSIONS.read_text(), re.MULTILINE))
    floors = {Requirement(text).name: Requirement(text) for text in PROJECT["project"]["dependencies"]}
    for name in ("grpcio", "protobuf", "numpy"):
        oldest, locked = (cell.strip() for cell in rows[name].split("|"))
        assert f">={oldest}" in map(str, floors[name].specifier), name
        pins = {version for pinned, version in read_pins("requirements.lock") if pinned == name}
        assert {*re.findall(r"[0-9]+\.[0-9]+\.[0-9]+", locked)} == pins, name


def test_classifiers_name_the_tested_pythons():
    script = (ROOT / "scripts/test-pythons").read_text()
    tested = {"3.11", *re.findall(r"^test_\w+(?: [a-z]+)? (3\.[0-9]+)$", script, re.MULTILINE)}
    named = {text.rpartition(" ")[2] for text in PROJECT["project"]["classifiers"] if ":: Python :: 3." in text}
    assert named == tested
