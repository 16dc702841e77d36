"""The committed answers of the implementations: `conformance/results/IMPLEMENTATION.json`.

- All answers are counted. All differences of the core are listed. Of the other sizes, only the smallest difference of
  each cause, rule and verdict is listed, because the page shows only this one.
- A run against a library writes these files: the output of `tensor-reshape conformance --json`, with a line for each
  difference. To read them, no library is needed.
"""

import json
from collections.abc import Callable, Iterator
from operator import attrgetter

from conformance.adapters.libraries import Difference
from conformance.adapters.questions import read_question
from tensor_reshape.conformance.cases import SuiteSize, list_cases
from tensor_reshape.conformance.results import Result, Results, measure_query
from tensor_reshape.conformance.verdicts import CaseVerdict
from verification.adapters.environments import ROOT

FOLDER = ROOT / "conformance/results"


def read_results() -> dict[str, Results]:
    """Returns all committed results by implementation."""
    return {path.stem: parse_results(path.read_text(encoding="utf-8")) for path in sorted(FOLDER.glob("*.json"))}


def parse_results(text: str) -> Results:
    """Returns the results in an output of the command, or in a committed file."""
    record = json.loads(text)
    rows = [Result(**{**row, "verdict": CaseVerdict(row["verdict"])}) for row in record.pop("differences")]
    return Results(**record, differences=rows)


def write_results(results: Results) -> None:
    """Writes the file of an implementation."""
    (FOLDER / f"{results.implementation}.json").write_text(format_results(results), encoding="utf-8")


def format_results(results: Results) -> str:
    """Returns the contents of the file of an implementation, with a line for each difference."""
    record = results.to_json()
    rows = ",\n".join(f" {json.dumps(one)}" for one in record.pop("differences"))
    lines = [f"{json.dumps(key)}: {json.dumps(value)}" for key, value in record.items()]
    return "{" + ",\n".join([*lines, f'"differences": [\n{rows}\n]' if rows else '"differences": []']) + "}\n"


def trim(results: Results, explain: Callable[[Difference], object]) -> Results:
    """Returns results that are short enough to be committed. Outside the core, one difference for each cause is kept.

    Args:
        results: all results.
        explain: returns the cause of a difference.
    """
    core = {case.id for case in list_cases([SuiteSize.CORE])}
    kept, smallest = list[Result](), dict[object, Result]()
    for one in sorted(results.differences, key=measure_query):
        if one.id in core:
            kept.append(one)
        else:
            smallest.setdefault((explain(read_difference(results, one)), one.rule, one.verdict), one)
    return results._replace(differences=[*sorted(kept, key=attrgetter("id")), *smallest.values()])


def list_differences(results: Results) -> Iterator[Difference]:
    """Yields the differences, except answers that are tighter than those of the suite."""
    return (read_difference(results, one) for one in results.differences if one.verdict.is_difference)


def read_difference(results: Results, one: Result) -> Difference:
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
