"""The lock files that `scripts/lock` writes."""

import re
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
LOCKS = ("requirements.lock", "requirements-build.lock")

_HASH = re.compile(r"--hash=sha256:[0-9a-f]{64}")


def read_locked(name: str, folder: Path = ROOT) -> dict[str, list[str]]:
    """Returns each requirement of a lock file with the hashes of its files."""
    entries = (folder / name).read_text().replace("\\\n", " ").splitlines()
    lines = [line for line in entries if line.strip() and not line.startswith("#")]
    return {line.partition(" --hash")[0].strip(): _HASH.findall(line) for line in lines}


def read_pins(name: str) -> set[tuple[str, str]]:
    """Returns the name and version of each package in a lock file, for all platforms."""
    requirements = map(Requirement, read_locked(name))
    return {(canonicalize_name(one.name), bound.version) for one in requirements for bound in one.specifier}
