"""`scripts/release --dry-run`, in a repository of its own that has what is here."""

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from zipfile import ZipFile

import pytest
from packaging.utils import canonicalize_name

from bills_of_materials import find_fault
from locks import ROOT, read_pins

pytestmark = pytest.mark.timeout(900)

VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
LEFT_OUT = (
    ".git",
    ".venv*",
    "__pycache__",
    "node_modules",
    "*_cache",
    ".hypothesis",
    "dist",
    "v1",
    "generated",
    "*.binpb",
)


class Repository:
    """A clone in which to release."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        shutil.copytree(ROOT, folder, ignore=shutil.ignore_patterns(*LEFT_OUT))
        shutil.copytree(ROOT / "protos" / "tensor_reshape" / "v1", folder / "protos" / "tensor_reshape" / "v1")
        changelog = folder / "CHANGELOG.md"
        changelog.write_text(changelog.read_text().replace("## [Unreleased]", f"## [{VERSION}] - 2026-01-01"))
        self.git("init", "--quiet")
        self.commit()

    def git(self, *arguments: str) -> str:
        identity = ["-c", "user.name=Test", "-c", "user.email=test@example.org"]
        command = ["git", *identity, *arguments]
        return subprocess.run(command, cwd=self.folder, capture_output=True, text=True, check=True).stdout

    def commit(self) -> None:
        self.git("add", "--all")
        self.git("commit", "--quiet", "--allow-empty", "--message", "A state")

    def release(self) -> subprocess.CompletedProcess[str]:
        env = {**os.environ, "VENV": sys.prefix}
        command = [str(self.folder / "scripts" / "release"), "--dry-run"]
        return subprocess.run(command, env=env, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Repository:
    return Repository(tmp_path_factory.mktemp("release") / "clone")


@pytest.fixture(scope="module")
def dist(repository: Repository) -> Path:
    """What a dry run leaves."""
    outcome = repository.release()
    assert outcome.returncode == 0, outcome.stdout + outcome.stderr
    assert outcome.stdout.count("reproducible: ") == 2, outcome.stdout
    assert outcome.stdout.endswith(f"dry run: v{VERSION} is not made\n")
    return repository.folder / "dist"


def test_wheel_source_materials_and_sums_are_made(dist: Path):
    names = {f"tensor_reshape-{VERSION}-py3-none-any.whl", f"tensor_reshape-{VERSION}.tar.gz"}
    assert {path.name for path in dist.iterdir()} == {*names, f"tensor-reshape-{VERSION}.cdx.json", "SHA256SUMS"}


def test_the_sums_are_those_of_the_files(dist: Path):
    for line in (dist / "SHA256SUMS").read_text().splitlines():
        digest, name = line.split()
        assert hashlib.sha256((dist / name).read_bytes()).hexdigest() == digest


def test_a_dry_run_makes_no_tag(dist: Path, repository: Repository):
    assert dist.exists()
    assert repository.git("tag", "--list") == ""


def test_the_wheel_has_one_time_in_all_its_files(dist: Path, repository: Repository):
    (wheel,) = dist.glob("*.whl")
    with ZipFile(wheel) as archive:
        times = {entry.date_time for entry in archive.infolist()}
    committed = repository.git("log", "-1", "--format=%cd", "--date=format-local:%Y %m %d %H %M").split()
    assert [time[:5] for time in times] == [tuple(map(int, committed))]


def test_the_bill_of_materials_is_valid_and_lists_what_is_pinned(dist: Path):
    document = (dist / f"tensor-reshape-{VERSION}.cdx.json").read_text()
    assert find_fault(document) is None
    listed = {(canonicalize_name(part["name"]), part["version"]) for part in json.loads(document)["components"]}
    assert {name for name, _ in listed - read_pins("requirements.lock")} <= {"tensor-reshape"}
    assert {"grpcio", "numpy", "protobuf"} <= {name for name, _ in listed}


@pytest.mark.parametrize(
    ("file", "old", "new", "refusal"),
    [
        ("CHANGELOG.md", f"## [{VERSION}]", "## [Unreleased]", "CHANGELOG.md has no section"),
        ("Dockerfile", f'version="{VERSION}"', 'version="9.9.9"', "the Dockerfile has another version"),
        ("protos/package.json", f'"version": "{VERSION}"', '"version": "9.9.9"', "protos/package.json has another"),
    ],
)
def test_what_does_not_name_the_version_is_no_release(
    dist: Path, repository: Repository, file: str, old: str, new: str, refusal: str
):
    assert dist.exists()
    path = repository.folder / file
    text = path.read_text()
    try:
        path.write_text(text.replace(old, new))
        repository.commit()
        outcome = repository.release()
    finally:
        path.write_text(text)
        repository.commit()
    assert (outcome.returncode, refusal in outcome.stderr) == (1, True)


def test_changes_that_are_not_committed_are_no_release(dist: Path, repository: Repository):
    assert dist.exists()
    extra = repository.folder / "extra"
    extra.touch()
    outcome = repository.release()
    extra.unlink()
    assert (outcome.returncode, "not committed" in outcome.stderr) == (1, True)


def test_a_version_that_is_there_is_not_released_again(dist: Path, repository: Repository):
    assert dist.exists()
    repository.git("tag", f"v{VERSION}")
    outcome = repository.release()
    repository.git("tag", "--delete", f"v{VERSION}")
    assert (outcome.returncode, "is there already" in outcome.stderr) == (1, True)
