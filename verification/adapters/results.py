"""What implementations answered, as it is committed: `conformance/results/IMPLEMENTATION.json`.

- All answers are counted. Differences of the core are whole; of the many others there is the smallest of each cause,
  rule and verdict, which is what the page tells.
- Whoever has asked a library writes them, as `tensor-reshape conformance --results`; whoever reads them needs none.
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
    """Returns all that is committed, by implementation."""
    return {path.stem: read_file(path) for path in sorted(FOLDER.glob("*.json"))}


def write_results(results: Results) -> None:
    """Writes the file of an implementation."""
    (FOLDER / f"{results.implementation}.json").write_text(results.write(), encoding="utf-8")


def trim(results: Results, explain: Callable[[Difference], object]) -> Results:
    """Returns results that are short enough to be committed: of those outside the core, one for each cause.

    Args:
        results: whole.
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
    """Returns what differs, but for what is tighter than the kit."""
    return (read_difference(results, one) for one in results.differences if one.verdict.is_difference)


def read_difference(results: Results, one: Row) -> Difference:
    """Returns a difference as deviations explain it."""
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
