"""`scripts/release --dry-run`, in a copy of this repository."""

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from zipfile import ZipFile

import pytest
from packaging.utils import canonicalize_name

from deployment_files import ROOT, read_pins

pytestmark = pytest.mark.timeout(900)

VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
GENERATED = ("v1", "generated", "*.binpb", "openapi.json", "dist", ".site", ".reference")
LEFT_OUT = (*GENERATED, ".git", ".venv*", ".hypothesis", "*_cache", "__pycache__", "node_modules")
NOT_THE_VERSION = {
    "CHANGELOG.md has no section": ("CHANGELOG.md", f"## [{VERSION}]", "## [Unreleased]"),
    "the Dockerfile has another version": ("Dockerfile", f'version="{VERSION}"', 'version="9.9.9"'),
    "protos/package.json has another": ("protos/package.json", f'"version": "{VERSION}"', '"version": "9.9.9"'),
}
"""For each error, the file that lacks the version, and the replaced text."""


class Repository:
    """A copy of this repository in which the script runs."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        shutil.copytree(ROOT, folder, ignore=shutil.ignore_patterns(*LEFT_OUT))
        for package in ("tensor_reshape/v1", "grpc/health/v1", "grpc/reflection/v1"):  # not generated, though named v1
            shutil.copytree(ROOT / "protos" / package, folder / "protos" / package)
        changelog = folder / "CHANGELOG.md"
        changelog.write_text(changelog.read_text().replace("## [Unreleased]", f"## [{VERSION}] - 2026-01-01"))
        self.git("init", "--quiet")
        self.commit()
        # The first commit counts as the one at which the README's table was measured.
        readme, first = folder / "README.md", self.git("rev-parse", "HEAD").strip()
        readme.write_text(re.sub(r"(?<=; commit )[0-9a-f]+(?=\.)", first, readme.read_text()))
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

    def reject_to_release(self) -> str:
        """Runs the script, which must fail, and returns its error."""
        outcome = self.release()
        assert outcome.returncode == 1
        return outcome.stderr


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Repository:
    return Repository(tmp_path_factory.mktemp("release") / "clone")


@pytest.fixture(scope="module")
def dist(repository: Repository) -> Path:
    """The folder that a dry run makes."""
    outcome = repository.release()
    assert outcome.returncode == 0, outcome.stdout + outcome.stderr
    assert outcome.stdout.count("reproducible: ") == outcome.stdout.count("PASSED") == 4, outcome.stdout
    assert outcome.stdout.endswith(f"dry run: the tag v{VERSION} was not made\n")
    return repository.folder / "dist"


def test_release_dry_run_builds_files_without_creating_a_tag(dist: Path, repository: Repository):
    built = {f"{name}-{VERSION}" for name in ("tensor_reshape", "tensor_reshape_protos")}
    names = {f"{name}{suffix}" for name in built for suffix in ("-py3-none-any.whl", ".tar.gz")}
    names |= {f"tensor-reshape-{VERSION}.cdx.json", f"tensor-reshape-{VERSION}-notes.md"}
    assert {path.name for path in dist.iterdir()} == {*names, "SHA256SUMS"}
    sums = {f"{hashlib.sha256((dist / name).read_bytes()).hexdigest()}  {name}" for name in names}
    assert set((dist / "SHA256SUMS").read_text().splitlines()) == sums
    assert repository.git("tag", "--list") == ""


def test_wheel_timestamps_equal_the_commit_time(dist: Path, repository: Repository):
    (wheel,) = dist.glob("tensor_reshape-*.whl")
    with ZipFile(wheel) as archive:
        times = {entry.date_time for entry in archive.infolist()}
    committed = repository.git("log", "-1", "--format=%cd", "--date=format-local:%Y %m %d %H %M").split()
    assert [time[:5] for time in times] == [tuple(map(int, committed))]


def test_release_notes_are_the_section_of_the_version(dist: Path, repository: Repository):
    notes = (dist / f"tensor-reshape-{VERSION}-notes.md").read_text()
    heading, *others = re.findall(r"^## .*\n", (repository.folder / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert notes.strip()
    assert f"{heading}{notes}" in (repository.folder / "CHANGELOG.md").read_text()
    assert [line for line in others if line in notes] == []


def test_bill_of_materials_lists_the_pinned_packages(dist: Path):
    # Imported here, because each test process imports all test files, and this import takes two seconds.
    from cyclonedx.schema import SchemaVersion  # noqa: PLC0415
    from cyclonedx.validation.json import JsonStrictValidator  # noqa: PLC0415

    document = (dist / f"tensor-reshape-{VERSION}.cdx.json").read_text()
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(document) is None
    listed = {(canonicalize_name(part["name"]), part["version"]) for part in json.loads(document)["components"]}
    assert {name for name, _ in listed - read_pins("requirements.lock")} <= {"tensor-reshape"}
    assert {"grpcio", "numpy", "protobuf"} <= {name for name, _ in listed}


@pytest.mark.usefixtures("dist")
def test_release_script_rejects_a_file_without_the_new_version(repository: Repository):
    for rejection, (file, old, new) in NOT_THE_VERSION.items():
        path = repository.folder / file
        text = path.read_text()
        path.write_text(text.replace(old, new))
        repository.commit()
        assert rejection in repository.reject_to_release()
        path.write_text(text)
        repository.commit()


@pytest.mark.usefixtures("dist")
def test_release_script_rejects_measurements_of_an_older_call_path(repository: Repository):
    path = repository.folder / "client" / "tensor_reshape" / "client" / "sync.py"
    text = path.read_text()
    path.write_text(f"{text}\n# a change\n")
    repository.commit()
    assert "the call path has changed; measure again" in repository.reject_to_release()
    path.write_text(text)
    repository.commit()


@pytest.mark.usefixtures("dist")
def test_release_script_rejects_uncommitted_changes_or_an_existing_tag(repository: Repository):
    extra = repository.folder / "extra"
    extra.touch()
    assert "uncommitted changes" in repository.reject_to_release()
    extra.unlink()
    repository.git("tag", f"v{VERSION}")
    assert "exists, and a release is never changed" in repository.reject_to_release()
    repository.git("tag", "--delete", f"v{VERSION}")
