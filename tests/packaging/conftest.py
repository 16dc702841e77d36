"""Virtual environments, made as users make them."""

import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

ROOT = Path(__file__).parents[2]
UV = (sys.executable, "-m", "uv")
RAY = "ray"
"""An extra that no test installs: it is a gigabyte, and raises the versions of others. `scripts/ray` does."""
TESTING = "testing"
"""An extra of what the tests themselves run on, which is as new as they need it."""


@pytest.fixture(scope="session")
def make_environment(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Makes a fresh environment, one `uv pip install` for each list of arguments, and returns its python."""

    def make(*installs: list[str]) -> Path:
        folder = tmp_path_factory.mktemp("environment")
        python = folder / "bin" / "python"
        subprocess.run([*UV, "venv", "--quiet", "--clear", "--python", sys.executable, folder], check=True)
        for arguments in installs:
            subprocess.run([*UV, "pip", "install", "--quiet", "--python", python, *arguments], cwd=ROOT, check=True)
        return python

    return make


@pytest.fixture(scope="session")
def floors() -> dict[str, Version]:
    """The lowest version that pyproject.toml allows of each dependency, extras included but for `RAY` and `TESTING`."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = [extra for name, extra in project["optional-dependencies"].items() if name not in (RAY, TESTING)]
    requirements = map(Requirement, [*project["dependencies"], *(text for extra in extras for text in extra)])
    return {requirement.name: find_floor(requirement) for requirement in requirements}


def find_floor(requirement: Requirement) -> Version:
    (floor,) = [Version(bound.version) for bound in requirement.specifier if bound.operator == ">="]
    return floor
