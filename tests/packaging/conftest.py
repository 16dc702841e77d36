"""Virtual environments that are made as users make them."""

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
LEFT_OUT = {"ray", "testing"}
"""Extras whose oldest releases are not tested. Ray is a gigabyte and needs newer releases of other packages, so only
`scripts/verify ray` installs it. The tests themselves need the newest releases of `testing`."""


@pytest.fixture(scope="session")
def make_environment(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Installs packages into a new environment with `uv pip install`, and returns its interpreter."""

    def make(*packages: str) -> Path:
        folder = tmp_path_factory.mktemp("environment")
        python = folder / "bin" / "python"
        subprocess.run([*UV, "venv", "--quiet", "--clear", "--python", sys.executable, folder], check=True)
        subprocess.run([*UV, "pip", "install", "--quiet", "--python", python, *packages], cwd=ROOT, check=True)
        return python

    return make


@pytest.fixture(scope="session")
def floors() -> dict[str, Version]:
    """The oldest version that pyproject.toml allows of each dependency, without the extras in `LEFT_OUT`."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = [extra for name, extra in project["optional-dependencies"].items() if name not in LEFT_OUT]
    requirements = map(Requirement, [*project["dependencies"], *(text for extra in extras for text in extra)])
    others = [one for one in requirements if one.name != project["name"]]  # an extra may include another one
    return {requirement.name: find_floor(requirement) for requirement in others}


def find_floor(requirement: Requirement) -> Version:
    (floor,) = [Version(bound.version) for bound in requirement.specifier if bound.operator == ">="]
    return floor
