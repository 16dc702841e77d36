"""Compares the differences that a run has found with a file of expected differences of the implementation.

Invariant: a run fails if a difference is new, or if an expected difference no longer occurs. The file of expected
differences therefore stays correct. If a case was not run, its difference counts as neither new nor gone.
"""

import json
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import NamedTuple

from tensor_reshape.conformance.results import Results


class Deviations(NamedTuple):
    """The deviations of a run from the differences that a file expects.

    Attributes:
        new: ids and verdicts of differences that are not expected, in the order of the suite.
        gone: ids and verdicts of expected differences that did not occur, in the order of the file.
    """

    new: Mapping[str, str]
    gone: Mapping[str, str]


def list_verdicts(results: Results) -> dict[str, str]:
    """Returns the verdict of each case with a difference, by the id of the case."""
    return {one.id: str(one.verdict) for one in results.differences if one.verdict.is_difference}


def write_expectation(results: Results) -> str:
    """Returns the contents of a file that expects all differences of a run."""
    verdicts = dict(sorted(list_verdicts(results).items()))
    return json.dumps({"suite": results.suite, "differences": verdicts}, indent=1) + "\n"


def read_expectation(path: Path) -> dict[str, str]:
    """Returns the verdicts in a file of expected differences, by the id of the case.

    Raises:
        ValueError: the file does not have the expected format.
    """
    try:
        verdicts = json.loads(path.read_text(encoding="utf-8"))["differences"]
        return {str(name): str(verdict) for name, verdict in verdicts.items()}
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        message = f"{path} is not a file of expected differences: create one with --write-expect"
        raise ValueError(message) from None


def compare(results: Results, expected: Mapping[str, str], run: Collection[str]) -> Deviations:
    """Compares a run with the expected differences.

    Args:
        results: the results of the run.
        expected: the verdicts of the expected differences, by the id of the case.
        run: the ids of all cases in the run.
    """
    found = list_verdicts(results)
    return Deviations(
        {name: verdict for name, verdict in found.items() if expected.get(name) != verdict},
        {name: verdict for name, verdict in expected.items() if name in run and found.get(name) != verdict},
    )
