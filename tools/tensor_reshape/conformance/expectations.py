"""The differences that somebody agrees to, in a file beside the implementation: a run is good where it has these alone.

Laws: a difference that is not agreed to fails a run, and so does one that is agreed to and is gone: so the file stays
true. What was not asked is not missed.
"""

import json
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import NamedTuple

from tensor_reshape.conformance.results import Results


class Deviations(NamedTuple):
    """How a run differs from what was agreed.

    Attributes:
        new: ids and verdicts that were not agreed to, in the order of the kit.
        gone: ids and verdicts that were agreed to, in their order, and did not occur.
    """

    new: Mapping[str, str]
    gone: Mapping[str, str]


def list_verdicts(results: Results) -> dict[str, str]:
    """Returns the verdict of each question that differs, by its id."""
    return {one.id: str(one.verdict) for one in results.differences if one.verdict.is_difference}


def write_expectation(results: Results) -> str:
    """Returns the file that agrees to all differences of a run."""
    verdicts = dict(sorted(list_verdicts(results).items()))
    return json.dumps({"kit": results.kit, "differences": verdicts}, indent=1) + "\n"


def read_expectation(path: Path) -> dict[str, str]:
    """Reads such a file.

    Raises:
        ValueError: it is none.
    """
    try:
        verdicts = json.loads(path.read_text(encoding="utf-8"))["differences"]
        return {str(name): str(verdict) for name, verdict in verdicts.items()}
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        message = f"{path} does not contain expected differences, as --write-expect writes them: {type(error).__name__}"
        raise ValueError(message) from None


def compare(results: Results, agreed: Mapping[str, str], asked: Collection[str]) -> Deviations:
    """Holds a run against what was agreed.

    Args:
        results: of the run.
        agreed: the verdicts of differences, by id.
        asked: the ids of all questions of the run.
    """
    found = list_verdicts(results)
    return Deviations(
        {name: verdict for name, verdict in found.items() if agreed.get(name) != verdict},
        {name: verdict for name, verdict in agreed.items() if name in asked and found.get(name) != verdict},
    )
