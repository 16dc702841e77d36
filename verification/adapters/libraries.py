"""The libraries for which there is an adapter."""

from importlib import import_module

from conformance.adapters.libraries import Library
from verification.adapters.environments import ADAPTERS

NAMES = sorted(path.parent.name for path in ADAPTERS.glob("*/library.py"))


def load_library(name: str) -> Library:
    """Returns what is known of a library."""
    library: Library = import_module(f"conformance.adapters.{name}.library").LIBRARY
    return library
