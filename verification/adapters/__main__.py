"""Asks libraries the questions of the conformance kit, and writes what they answer.

Each library has an environment of its own, made where it is not there yet. What each implementation answers is
written to `conformance/results`, from which `scripts/site` writes docs/conformance.md; the programs of the reports
are run as well.
"""

import argparse
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

from conformance.adapters.libraries import Implementation, Library
from tensor_reshape.conformance.cases import Size
from tensor_reshape.conformance.results import Results
from tensor_reshape.conformance.results import read_results as read_file
from verification.adapters.environments import ROOT, Environment
from verification.adapters.libraries import NAMES, list_reports, load_library
from verification.adapters.pages import explain, find_cause
from verification.adapters.reports import check
from verification.adapters.results import list_differences, trim, write_results


def main() -> None:
    """Runs; status 1 where something differs for no reason that is known, or a report is not what happens."""
    parser = argparse.ArgumentParser("scripts/verify adapters", description=__doc__)
    parser.add_argument(
        "--size",
        choices=[size.value for size in Size],
        action="append",
        help="which cases, to try something: nothing is written; default: those that are on the page",
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"some of {', '.join(NAMES)}; default: all")
    arguments = parser.parse_args()
    findings = [finding for name in arguments.names or NAMES for finding in ask(name, arguments.size)]
    print(*findings, sep="\n")
    sys.exit(bool(findings))


def ask(name: str, sizes: Sequence[str] | None) -> Iterator[str]:
    """Asks a library in all ways that it has, and yields what nobody knew of.

    Args:
        name: of the adapter.
        sizes: which cases; None: all that an implementation is asked, and its results are written.
    """
    environment, library = Environment(name), load_library(name)
    environment.prepare()
    for implementation in library.implementations:
        results = run(environment, implementation, sizes or implementation.sizes)
        yield from find_unexplained(library, results)
        if sizes is None:
            write_results(trim(results, partial(find_cause, library)))
    for report in list_reports(library):
        yield from check(report, environment)


def run(environment: Environment, implementation: Implementation, sizes: Sequence[str]) -> Results:
    """Asks one implementation the questions of these sizes."""
    adapter = [environment.python, "-m", f"conformance.adapters.{environment.name}.adapter", implementation.name]
    asked = [argument for size in sizes for argument in ("--size", size)]
    command = ["tensor-reshape", "conformance", "--command", shlex.join(map(str, adapter)), *asked]
    with tempfile.NamedTemporaryFile(suffix=".json") as written:
        subprocess.run([*command, "--results", written.name], check=False, cwd=ROOT)  # it ends with 1 at any difference
        return read_file(Path(written.name))


def find_unexplained(library: Library, results: Results) -> Iterator[str]:
    """Yields the differences that no deviation explains."""
    for one in explain(library, list_differences(results)).get(None, []):
        yield f"{results.implementation}: not explained: {one.case}: {one.verdict}: {dict(one.answer)}"


if __name__ == "__main__":
    main()
