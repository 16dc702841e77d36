"""Runs the queries of the conformance suite against libraries, and writes their answers to files.

Each library has its own environment, which is made if it does not exist. The answers of each implementation go to
`conformance/results`. `scripts/site` writes docs/conformance.md from these files. The programs of the reports are run
as well.
"""

import argparse
import shlex
import subprocess
import sys
from collections.abc import Iterator, Sequence
from functools import partial

from conformance.adapters.libraries import Implementation, Library
from tensor_reshape.conformance.cases import SuiteSize
from tensor_reshape.conformance.results import Results
from verification.adapters.environments import ROOT, Environment
from verification.adapters.libraries import NAMES, list_reports, load_library
from verification.adapters.pages import explain, find_cause
from verification.adapters.reports import check
from verification.adapters.results import list_differences, parse_results, trim, write_results


def main() -> None:
    """Runs the adapters. The status is 1 if a difference has no explanation, or if a report and its program differ."""
    parser = argparse.ArgumentParser("scripts/verify adapters", description=__doc__)
    parser.add_argument(
        "--size",
        choices=[size.value for size in SuiteSize],
        action="append",
        help="sizes of cases to try, without writing results; default: the sizes on the page",
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"some of {', '.join(NAMES)}; default: all")
    arguments = parser.parse_args()
    findings = [finding for name in arguments.names or NAMES for finding in check_library(name, arguments.size)]
    print(*findings, sep="\n")
    sys.exit(bool(findings))


def check_library(name: str, sizes: Sequence[str] | None) -> Iterator[str]:
    """Runs a library's implementations, and yields the differences that have no explanation.

    Args:
        name: the name of the adapter.
        sizes: the sizes of cases; None runs every size that an implementation supports, and writes the results.
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
    """Runs the queries of these sizes against one implementation."""
    adapter = [environment.python, "-m", f"conformance.adapters.{environment.name}.adapter", implementation.name]
    size_arguments = [argument for size in sizes for argument in ("--size", size)]
    command = ["tensor-reshape", "conformance", "--json", "--command", shlex.join(map(str, adapter)), *size_arguments]
    # The status is 1 if there is a difference.
    return parse_results(subprocess.run(command, check=False, cwd=ROOT, stdout=subprocess.PIPE, text=True).stdout)


def find_unexplained(library: Library, results: Results) -> Iterator[str]:
    """Yields the differences that no deviation explains."""
    for one in explain(library, list_differences(results)).get(None, []):
        yield f"{results.implementation}: not explained: {one.case}: {one.verdict}: {dict(one.answer)}"


if __name__ == "__main__":
    main()
