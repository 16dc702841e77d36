"""The interpreters of the contestants, the versions of their packages, and the description of the machine."""

import os
import platform
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from benchmarks.contestants import CPP

ROOT = Path(__file__).parents[1]
PEERS = ROOT / ".venv-peers"
_PACKAGES = {"arrow": ("pyarrow",), "starlette": ("starlette", "uvicorn")}
"""The required packages of each environment; reports show their versions."""

_OWN_PACKAGES = ("tensor-reshape", "grpcio", "protobuf", "numpy")
_DESCRIBE = """
import sys, sysconfig
from importlib.metadata import version
print(sysconfig.get_config_var("LIBDIR"))
print(", ".join(f"{name} {version(name)}" for name in sys.argv[1:]))
"""


class Environment(NamedTuple):
    """The environment of a contestant."""

    python: str  # the interpreter
    folder: str  # the folder of its libpython; in the C++ environment, the folder of the server
    versions: str  # the versions of the relevant packages


def find_environment(name: str, peers: Path = PEERS) -> Environment | None:
    """Returns the environment of that name, None if it is not installed."""
    if name == CPP:
        version = peers / CPP / "version"
        if not version.exists():
            return None
        return Environment(sys.executable, str(peers / CPP), f"libgrpc++ {version.read_text().strip()}")
    if name in _PACKAGES:
        return open_environment(str(peers / name / "bin" / "python"), _PACKAGES[name])
    return open_environment(sys.executable)


def open_environment(python: str, packages: tuple[str, ...] = _OWN_PACKAGES) -> Environment | None:
    """Returns the environment of an interpreter, or None if the interpreter or a package is missing."""
    try:
        answer = subprocess.run([python, "-c", _DESCRIBE, *packages], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return Environment(python, *answer.stdout.splitlines())


def find_commit(python: str) -> str:
    """Returns the commit of the checkout from which an interpreter imports the project; "?" if it is installed."""
    # The interpreter reports its checkout, because our version and the base have the same version number.
    where = "import importlib.util as u; print(*u.find_spec('tensor_reshape.client').submodule_search_locations)"
    folder = subprocess.run([python, "-c", where], capture_output=True, text=True, check=True).stdout.strip()
    if "site-packages" in folder:  # an installed wheel; the folder of its environment may be in an unrelated checkout
        return "?"
    command = ["git", "-C", folder, "describe", "--always", "--dirty", "--exclude=*"]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip() or "?"


def describe_machine() -> list[str]:
    """Returns two lines about the machine."""
    memory = int(_read_field("/proc/meminfo", "MemTotal").split()[0]) * 1024 / 1024**3
    virtual = ", virtual" if "hypervisor" in _read_field("/proc/cpuinfo", "flags").split() else ""
    system = platform.freedesktop_os_release().get("PRETTY_NAME", platform.system())
    return [
        f"{_read_field('/proc/cpuinfo', 'model name')}, {os.cpu_count()} cores{virtual}, {memory:.1f} GiB of memory",
        f"{system}, Linux {platform.release()}, Python {platform.python_version()}",
    ]


def read_free_memory() -> int:
    """Returns the number of available bytes of memory."""
    return int(_read_field("/proc/meminfo", "MemAvailable").split()[0]) * 1024


def _read_field(path: str, name: str) -> str:
    lines = (line.partition(":") for line in Path(path).read_text().splitlines())
    return next((value.strip() for key, _, value in lines if key.strip() == name), "0")
