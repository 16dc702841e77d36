"""The libraries for which there is an adapter."""

from conformance.adapters.deviations import read_library
from conformance.adapters.libraries import Library
from verification.adapters.environments import ADAPTERS

NAMES = sorted(path.stem for path in ADAPTERS.glob("*.toml"))


def load_library(name: str) -> Library:
    """Returns the description of a library."""
    return read_library(ADAPTERS / f"{name}.toml")


def load_libraries() -> list[Library]:
    """Returns the descriptions of all libraries."""
    return [load_library(name) for name in NAMES]


def list_reports(library: Library) -> list[str]:
    """Returns the reports of a library's deviations."""
    return list(dict.fromkeys(deviation.report for deviation in library.deviations if deviation.report))
