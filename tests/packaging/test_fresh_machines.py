"""`.ci/run` on a machine that can download nothing."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PRESENT = ("bash", "chmod", "dirname", "env", "mkdir", "mktemp", "mv", "python3", "rm", "sort", "tar", "timeout")
FAILING = ("apt-get", "dpkg-query", "npm", "sudo")
LACKING = ("podman", "prometheus", "some-package", "kubectl")
CHECK_CODE = 3


def write_script(path: Path, *lines: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(["#!/bin/sh", *lines, ""]))
    path.chmod(0o755)


@pytest.fixture
def run(tmp_path: Path) -> subprocess.CompletedProcess[str]:
    """A run whose downloads all fail, and a check too; what it would run itself only says so."""
    clone, tools = tmp_path / "clone", tmp_path / "tools"
    tools.mkdir()
    for name in PRESENT:
        path = shutil.which(name)
        assert path is not None
        (tools / name).symlink_to(path)
    for name in FAILING:
        write_script(tools / name, f"echo {name} fails >&2", "exit 1")
    shutil.copytree(ROOT / ".ci", clone / ".ci")
    write_script(clone / "scripts/check", "echo checks", f"exit {CHECK_CODE}")
    write_script(clone / "scripts/frameworks", "echo tests of frameworks")
    write_script(clone / "scripts/floor", "echo tests beside the oldest releases")
    write_script(clone / "scripts/test", "echo tests")
    packages = clone / "tests/clients/programs/one/debian-packages"
    packages.parent.mkdir(parents=True)
    packages.write_text("some-package\n")
    env = {**os.environ, "PATH": str(tools)}
    return subprocess.run([clone / ".ci/run"], env=env, capture_output=True, text=True, check=False)


def test_the_tests_run_whatever_cannot_be_had_and_whichever_check_fails(run: subprocess.CompletedProcess[str]):
    assert run.stdout.splitlines() == ["checks", "tests of frameworks", "tests beside the oldest releases", "tests"]


def test_the_exit_code_is_that_of_the_check_that_failed(run: subprocess.CompletedProcess[str]):
    assert run.returncode == CHECK_CODE


@pytest.mark.parametrize("name", LACKING)
def test_what_cannot_be_had_is_named(run: subprocess.CompletedProcess[str], name: str):
    assert f"{name} cannot be had: tests that need it are skipped" in run.stderr
