"""The committed answers of the implementations: `conformance/results/IMPLEMENTATION.json`.

- All answers are counted. All differences of the core are listed. Of the other sizes, only the smallest difference of
  each cause, rule and verdict is listed, because the page shows only this one.
- A run against a library writes these files, as `tensor-reshape conformance --results` does. To read them, no library
  is needed.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from operator import attrgetter

from conformance.adapters.libraries import Difference
from conformance.adapters.questions import read_question
from tensor_reshape.conformance.cases import Size, list_cases
from tensor_reshape.conformance.results import Difference as Row
from tensor_reshape.conformance.results import Results, measure_query
from tensor_reshape.conformance.results import read_results as read_file
from verification.adapters.environments import ROOT

FOLDER = ROOT / "conformance/results"


def read_results() -> dict[str, Results]:
    """Returns all committed results by implementation."""
    return {path.stem: read_file(path) for path in sorted(FOLDER.glob("*.json"))}


def write_results(results: Results) -> None:
    """Writes the file of an implementation."""
    (FOLDER / f"{results.implementation}.json").write_text(results.write(), encoding="utf-8")


def trim(results: Results, explain: Callable[[Difference], object]) -> Results:
    """Returns results that are short enough to be committed. Outside the core, one difference for each cause is kept.

    Args:
        results: all results.
        explain: returns the cause of a difference.
    """
    core = {case.id for case in list_cases([Size.CORE])}
    kept, smallest = list[Row](), dict[object, Row]()
    for one in sorted(results.differences, key=measure_query):
        if one.id in core:
            kept.append(one)
        else:
            smallest.setdefault((explain(read_difference(results, one)), one.rule, one.verdict), one)
    return replace(results, differences=[*sorted(kept, key=attrgetter("id")), *smallest.values()])


def list_differences(results: Results) -> Iterator[Difference]:
    """Yields the differences, except answers that are tighter than those of the suite."""
    return (read_difference(results, one) for one in results.differences if one.verdict.is_difference)


def read_difference(results: Results, one: Row) -> Difference:
    """Returns a difference in the form that deviations explain."""
    return Difference(
        implementation=results.implementation,
        case=one.id,
        rule=one.rule,
        question=read_question(one.query),
        asked=one.query,
        right=one.right,
        because=one.because,
        verdict=one.verdict,
        answer=one.answer or {},
    )
