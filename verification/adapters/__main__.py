"""Prepares the environments of libraries, and tells the command by which the conformance kit is asked of each."""

import argparse
from importlib import import_module

from conformance.adapters.libraries import Library
from verification.adapters.environments import ADAPTERS, ROOT, Environment

LIBRARIES = sorted(path.parent.name for path in ADAPTERS.glob("*/library.py"))


def main() -> None:
    """Runs."""
    parser = argparse.ArgumentParser("scripts/adapters", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"some of {', '.join(LIBRARIES)}; default: all")
    for name in parser.parse_args().names or LIBRARIES:
        environment, library = Environment(name), load_library(name)
        environment.prepare()
        python = environment.python.relative_to(ROOT)
        for implementation in library.implementations:
            print(f"{python} -m conformance.adapters.{name}.adapter {implementation.name}")


def load_library(name: str) -> Library:
    """Returns what is known of a library."""
    library: Library = import_module(f"conformance.adapters.{name}.library").LIBRARY
    return library


if __name__ == "__main__":
    main()
