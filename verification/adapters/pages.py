"""The page on the conformance of libraries, from the committed results.

- Each difference is listed once: with the first deviation of its library that explains it, or as not explained.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from conformance.adapters.libraries import Deviation, Difference, Implementation, Library, Matter
from tensor_reshape.conformance.cases import RULES, SuiteSize
from tensor_reshape.conformance.results import Results, describe_answer, describe_query
from tensor_reshape.conformance.verdicts import CaseVerdict
from verification.adapters.libraries import list_reports
from verification.adapters.reports import read_title
from verification.adapters.results import list_differences
from verification.document.tables import join_cells

_INTRODUCTION = """\
# Conformance of libraries

<!-- Written by scripts/site from conformance/results, which scripts/verify adapters writes. -->

Look up how your library deviates from the specifications of the operations. This table has the most serious deviation
of each library:
"""

_METHOD = """\

To get these results, the [conformance suite](how-to/conformance.md) was run with each library in its own environment.
No library supports all three operations (StaticReshape, DynamicReshape and Reshape-1). Queries that a library does not
support are not counted. The section of each library has the tested versions and the date. To test a library again, run
`scripts/verify adapters NAME` (`conformance/adapters/README.md`). To test your own code, see
[Test your own implementation](how-to/conformance.md).

## How to read the tables

- The column **correct answers** has the number of correct answers and the number of supported queries, over all tested
  interfaces of the library.
- The column **matters** has the worst effect of a deviation. From the worst, the effects are: wrong memory (the library
  reads or writes bytes outside the tensor), a crash, a wrong shape, a missing error, a needless rejection, and a weaker
  answer (correct, but wider than necessary).
- A deviation with the effect **another definition** is not a defect. The library documents different behaviour, or no
  specification decides which behaviour is right.
- The column **example** has the smallest query that shows the deviation. `?` is an unknown dimension, `2..4` is a
  dimension from 2 to 4, and `[...]` is a shape of unknown rank. The list after each table names the case of the suite
  that has this query, and the rule that decides the correct answer.
"""

_MATRIX = """\
## Correct answers for each rule

Each cell of this table has the number of correct answers and the number of queries that the library supports. If the
library supports no query of a rule, the cell has a `-`. No library infers conditions, so in the rule `conditions` only
the shapes are compared. Do not compare rows with different sizes of the suite, because `core` has a few cases for each
limit of a rule, and the other sizes have many similar cases. The page
[Test your own implementation](how-to/conformance.md) explains the rules.
"""

_VERDICTS = """\

## Number of answers for each verdict

A **weaker** answer is correct but wider than necessary. A **tighter** answer is narrower than the suite's answer, and
no values of the unknown dimensions contradict it.
"""

_REPORTS = """\

## Reports

Each defect has a report for the developers of the library. A report describes what happens. It contains the smallest
program that shows the defect, and the sentence of the documentation that requires a different result. Each program was
run, and it printed the output in the report. Before you publish a report about wrong memory, send the report to the
private channel that the library's security policy names.
"""

_UNEXPLAINED = "Not explained"
_SHOWN_BY = {
    Matter.CRASH: CaseVerdict.CRASH,
    Matter.WRONG_SHAPE: CaseVerdict.WRONG_SHAPE,
    Matter.MISSING_ERROR: CaseVerdict.MISSING_ERROR,
    Matter.NEEDLESS_REJECTION: CaseVerdict.SPURIOUS_ERROR,
    Matter.WEAKER_ANSWER: CaseVerdict.WEAKER,
}
_SHOWN = [*(verdict for verdict in CaseVerdict if verdict.is_difference), CaseVerdict.TIGHTER, CaseVerdict.AGREES]


class LibraryResults(NamedTuple):
    """An implementation and its results."""

    library: Library
    implementation: Implementation
    results: Results


def build(libraries: Sequence[Library], results: Mapping[str, Results]) -> str:
    """Returns the page."""
    asked = [
        LibraryResults(library, implementation, results[implementation.name])
        for library in libraries
        for implementation in library.implementations
        if implementation.name in results
    ]
    shown = [library for library in libraries if any(one.library is library for one in asked)]
    lines = [
        _INTRODUCTION,
        *_build_summary(shown, asked),
        _METHOD,
        *(line for library in shown for line in _build_section(library, asked)),
        _MATRIX,
        *_build_matrix(asked),
        _VERDICTS,
        *_build_verdicts(asked),
        _REPORTS,
        *_build_reports(shown),
    ]
    return "\n".join(lines) + "\n"


def explain(library: Library, differences: Iterable[Difference]) -> dict[Deviation | None, list[Difference]]:
    """Returns the differences of each deviation, the worst first; the key None has those without an explanation."""
    sorted_out: dict[Deviation | None, list[Difference]] = {deviation: [] for deviation in (*library.deviations, None)}
    for difference in differences:
        sorted_out[find_cause(library, difference)].append(difference)
    worst_first = sorted(sorted_out, key=lambda deviation: list(Matter).index(deviation.matter) if deviation else -1)
    return {deviation: sorted_out[deviation] for deviation in worst_first if sorted_out[deviation]}


def find_cause(library: Library, difference: Difference) -> Deviation | None:
    """Returns the first deviation that explains a difference, or None."""
    return next((deviation for deviation in library.deviations if deviation.explains(difference)), None)


def _build_summary(libraries: Sequence[Library], asked: Sequence[LibraryResults]) -> Iterator[str]:
    """Yields a row for each library, with its most serious deviation."""
    yield "| library | correct answers | most serious deviation | matters |"
    yield "|---|---:|---|---|"
    for library in libraries:
        results = [one.results for one in asked if one.library is library]
        found = explain(library, (one for each in results for one in list_differences(each)))
        worst = next(filter(None, found), None)
        cells = (worst.title, str(worst.matter)) if worst else ("none", "")
        yield join_cells((f"[{library.title}](#{library.title.lower()})", _sum_share(results), *cells))


def _sum_share(results: Sequence[Results]) -> str:
    """Returns the number of correct answers and of supported queries, over all implementations of a library."""
    right = sum(one.count(verdict) for one in results for verdict in (CaseVerdict.AGREES, CaseVerdict.TIGHTER))
    supported = right + sum(one.count(verdict) for one in results for verdict in CaseVerdict if verdict.is_difference)
    return f"{right}/{supported}"


def _build_matrix(asked: Sequence[LibraryResults]) -> Iterator[str]:
    yield join_cells(("implementation", "sizes", *(f"`{rule}`" for rule in RULES)))
    yield f"|---|---|{'---:|' * len(RULES)}"
    for one in asked:
        shares = [_format_share(one.results.counts.get(rule, {})) for rule in RULES]
        yield join_cells((f"`{one.implementation.name}`", _format_sizes(one.results), *shares))


def _format_sizes(results: Results) -> str:
    return "all" if len(results.sizes) == len(SuiteSize) else ", ".join(f"`{size}`" for size in results.sizes)


def _format_share(verdicts: Mapping[str, int]) -> str:
    offered = sum(verdicts.values()) - verdicts.get(CaseVerdict.UNSUPPORTED, 0)
    right = verdicts.get(CaseVerdict.AGREES, 0) + verdicts.get(CaseVerdict.TIGHTER, 0)
    return f"{right}/{offered}" if offered else "-"


def _build_verdicts(asked: Sequence[LibraryResults]) -> Iterator[str]:
    yield join_cells(("implementation", *(str(verdict).replace("_", " ") for verdict in _SHOWN), "not supported"))
    yield f"|---|{'---:|' * (len(_SHOWN) + 1)}"
    for one in asked:
        counts = [one.results.count(verdict) for verdict in (*_SHOWN, CaseVerdict.UNSUPPORTED)]
        yield join_cells((f"`{one.implementation.name}`", *(str(count) if count else "" for count in counts)))


def _build_section(library: Library, asked: Sequence[LibraryResults]) -> Iterator[str]:
    of_library = [one for one in asked if one.library is library]
    yield from (f"## {library.title}", "")
    for one in of_library:
        results, asked_for = one.results, one.implementation.asked
        versions = ", ".join(f"{name} {version}" for name, version in results.versions.items())
        sizes = ", ".join(f"`{size}`" for size in results.sizes)
        tested = f"It was tested on {results.date} with {versions} and the cases of the sizes {sizes}."
        yield f"- `{results.implementation}`: {asked_for} {tested}"
    yield from ("", library.lacks, "")
    differences = [difference for one in of_library for difference in list_differences(one.results)]
    if not differences:
        yield from ("Every answer is correct.", "")
        return
    explained = explain(library, differences)
    yield "| deviation | matters | rules | implementations | example | answer of the library | correct answer |"
    yield "|---|---|---|---|---|---|---|"
    for deviation, found in explained.items():
        yield _build_row(deviation, found)
    yield ""
    yield from (_build_reason(deviation, found) for deviation, found in explained.items())
    yield ""


def _build_row(deviation: Deviation | None, found: Sequence[Difference]) -> str:
    smallest, rules = find_example(deviation, found), {difference.rule for difference in found}
    return join_cells(
        (
            deviation.title if deviation else _UNEXPLAINED,
            str(deviation.matter) if deviation else "",
            ", ".join(f"`{rule}`" for rule in RULES if rule in rules),
            ", ".join(f"`{name}`" for name in dict.fromkeys(difference.implementation for difference in found)),
            _quote(describe_query(dict(smallest.asked))),
            _quote(describe_answer(dict(smallest.answer))) if smallest.answer else smallest.verdict,
            _quote(describe_answer(dict(smallest.right))),
        )
    )


def _quote(text: str) -> str:
    return f"`` {text} ``" if "`" in text else f"`{text}`"


def _build_reason(deviation: Deviation | None, found: Sequence[Difference]) -> str:
    smallest = find_example(deviation, found)
    report = f" [Report](conformance/reports/{deviation.report}.md)." if deviation and deviation.report else ""
    why = f"{deviation.title}**: {deviation.why}" if deviation else f"{_UNEXPLAINED}**:"
    return f"- **{why}{report} The case `{smallest.case}` tests this rule: {smallest.because}"


def find_example(deviation: Deviation | None, found: Sequence[Difference]) -> Difference:
    """Returns the shortest difference that shows the effect of a deviation, or the shortest of all if none shows it."""
    verdict = _SHOWN_BY.get(deviation.matter) if deviation else None
    shown = [difference for difference in found if difference.verdict == verdict]
    return min(shown or found, key=lambda difference: (len(describe_query(dict(difference.asked))), difference.case))


def _build_reports(libraries: Sequence[Library]) -> Iterator[str]:
    for library in libraries:
        for report in list_reports(library):
            yield f"- [{read_title(report)}](conformance/reports/{report}.md)"
