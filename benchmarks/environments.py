"""The environments of the peers: where they are, and whether they are there."""

import subprocess
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from benchmarks.contestants import CPP, OWN, SERVERS, Contestant

PACKAGES = {
    OWN: ("tensor-reshape", "grpcio", "protobuf", "numpy"),
    "arrow": ("pyarrow",),
    "fastapi": ("fastapi", "uvicorn", "uvloop", "httpx"),
    "mlserver": ("mlserver", "tritonclient", "grpcio"),
    "triton": ("nvidia-pytriton", "tritonclient", "grpcio"),
}
"""Whose versions are told, environment by environment; the first of each is what must be installed."""

_VERSIONS = """
import sys, sysconfig
from importlib.metadata import version
print(sysconfig.get_config_var("LIBDIR"))
for name in sys.argv[1:]:
    print(name, version(name))
"""


@dataclass(frozen=True, slots=True)
class Environment:
    """Where a peer's packages are.

    Attributes:
        python: the interpreter.
        libraries: the folder of its libpython.
        versions: of the packages that matter.
    """

    python: str
    libraries: str
    versions: dict[str, str]


@dataclass(frozen=True, slots=True)
class Peers:
    """The folder that `benchmarks/install-peers` fills."""

    folder: Path

    def open_environment(self, name: str) -> Environment | None:
        """Returns the environment, None where it is not installed."""
        return _open_environment(self.folder, name)

    def is_installed(self, contestant: Contestant) -> bool:
        """Tells whether both sides of a contestant are there."""
        names = (SERVERS[contestant.server].environment, contestant.client_environment)
        return all(self.open_environment(name) for name in names)

    def list_versions(self) -> dict[str, dict[str, str]]:
        """Returns the versions of what is installed, environment by environment."""
        found = {name: self.open_environment(name) for name in (*PACKAGES, CPP)}
        return {name: environment.versions for name, environment in found.items() if environment}


@cache
def _open_environment(folder: Path, name: str) -> Environment | None:
    if name == CPP:
        return _open_cpp(folder / CPP)
    python = Path(sys.executable) if name == OWN else folder / name / "bin" / "python"
    if not python.exists():
        return None
    answer = subprocess.run([python, "-c", _VERSIONS, *PACKAGES[name]], capture_output=True, text=True, check=False)
    if answer.returncode != 0:
        return None
    libraries, *lines = answer.stdout.splitlines()
    return Environment(str(python), libraries, dict(line.split(" ", 1) for line in lines))


def _open_cpp(folder: Path) -> Environment | None:
    if not (folder / "reshape_server").exists():
        return None
    version = folder / "version"
    return Environment(sys.executable, "", {"libgrpc++": version.read_text().strip() if version.exists() else "?"})
