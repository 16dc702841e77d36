"""The page of what libraries answer, from the results that are committed.

- Each difference is told once: with the first deviation of its library that explains it, or as not explained.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from conformance.adapters.libraries import Deviation, Difference, Implementation, Library, Matter
from tensor_reshape.conformance.cases import RULES, Size
from tensor_reshape.conformance.results import Results
from tensor_reshape.conformance.sentences import write_answer, write_question
from tensor_reshape.conformance.verdicts import Verdict
from verification.adapters.libraries import list_reports
from verification.adapters.reports import read_title
from verification.adapters.results import list_differences
from verification.document.tables import join_cells

_INTRODUCTION = """\
# What libraries answer

<!-- Written by scripts/site from conformance/results, which scripts/verify adapters writes. -->

The [conformance kit](how-to/conformance.md) was asked of real libraries, each in an environment of its own. Here is
how often each agrees, where it differs, and how much that matters. What a library does not offer is not counted: none
has all three operations. Versions and dates are in the section of each. `scripts/verify adapters NAME` asks one again
(`conformance/adapters/README.md`).

## Rule by rule

How many of the questions are answered as the kit answers them, or tighter, of those that the implementation was asked:
all of the sizes of the kit that are told, but for what it does not offer. A dash: it offers nothing of the kind. Rows
of different sizes do not compare: the core is a few cases of each boundary, the others are many of the same kind.
"""

_VERDICTS = """\

## Verdict by verdict

How many questions had which answer. A **weaker** answer is right, and says less than could be known. A **tighter** one
says more than the kit, and no instance contradicts it.
"""

_REPORTS = """\

## Reports

One for each defect, ready to be sent: what happens, the smallest program, and the sentence that expects otherwise.
Each program was run, and printed what the report says. Those about wrong memory are for the private channel that the
library's security policy names, before they are for its public tracker.
"""

_MATTERS = """\

**Matters** tells the worst that comes of a deviation, the worst first: wrong memory (bytes are read or written
that are not the tensor's), a crash, a wrong shape, a missing error, a needless rejection, a weaker answer. Where a
library documents that it means something else, or no sentence decides, that is another definition, and no defect. The
example is the smallest of the questions that show it. In it `?` is an unknown dim, `2..4` one between, and `[...]` an
unknown rank.
"""

_UNEXPLAINED = "Not explained"
_SHOWN_BY = {
    Matter.CRASH: Verdict.CRASH,
    Matter.WRONG_SHAPE: Verdict.WRONG_SHAPE,
    Matter.MISSING_ERROR: Verdict.MISSING_ERROR,
    Matter.NEEDLESS_REJECTION: Verdict.SPURIOUS_ERROR,
    Matter.WEAKER_ANSWER: Verdict.WEAKER,
}
_SHOWN = [*(verdict for verdict in Verdict if verdict.is_difference), Verdict.TIGHTER, Verdict.AGREES]


class Asked(NamedTuple):
    """An implementation, and what it answered."""

    library: Library
    implementation: Implementation
    results: Results


def build(libraries: Sequence[Library], results: Mapping[str, Results]) -> str:
    """Returns the page."""
    asked = [
        Asked(library, implementation, results[implementation.name])
        for library in libraries
        for implementation in library.implementations
        if implementation.name in results
    ]
    told = [library for library in libraries if any(one.library is library for one in asked)]
    lines = [
        _INTRODUCTION,
        *_build_matrix(asked),
        _VERDICTS,
        *_build_verdicts(asked),
        _MATTERS,
        *(line for library in told for line in _build_section(library, asked)),
        _REPORTS,
        *_build_reports(told),
    ]
    return "\n".join(lines) + "\n"


def explain(library: Library, differences: Iterable[Difference]) -> dict[Deviation | None, list[Difference]]:
    """Returns the differences of each deviation that has some, the worst first; None: those that nothing explains."""
    sorted_out: dict[Deviation | None, list[Difference]] = {deviation: [] for deviation in (*library.deviations, None)}
    for difference in differences:
        sorted_out[find_cause(library, difference)].append(difference)
    worst_first = sorted(sorted_out, key=lambda deviation: list(Matter).index(deviation.matter) if deviation else -1)
    return {deviation: sorted_out[deviation] for deviation in worst_first if sorted_out[deviation]}


def find_cause(library: Library, difference: Difference) -> Deviation | None:
    """Returns the first deviation that explains a difference; None: nothing does."""
    return next((deviation for deviation in library.deviations if deviation.explains(difference)), None)


def _build_matrix(asked: Sequence[Asked]) -> Iterator[str]:
    yield join_cells(("implementation", "sizes", *(f"`{rule}`" for rule in RULES)))
    yield f"|---|---|{'---:|' * len(RULES)}"
    for one in asked:
        shares = [_format_share(one.results.counts.get(rule, {})) for rule in RULES]
        yield join_cells((f"`{one.implementation.name}`", _format_sizes(one.results), *shares))


def _format_sizes(results: Results) -> str:
    return "all" if len(results.sizes) == len(Size) else ", ".join(f"`{size}`" for size in results.sizes)


def _format_share(verdicts: Mapping[str, int]) -> str:
    offered = sum(verdicts.values()) - verdicts.get(Verdict.UNSUPPORTED, 0)
    right = verdicts.get(Verdict.AGREES, 0) + verdicts.get(Verdict.TIGHTER, 0)
    return f"{right}/{offered}" if offered else "-"


def _build_verdicts(asked: Sequence[Asked]) -> Iterator[str]:
    yield join_cells(("implementation", *(str(verdict).replace("_", " ") for verdict in _SHOWN), "not offered"))
    yield f"|---|{'---:|' * (len(_SHOWN) + 1)}"
    for one in asked:
        counts = [one.results.count(verdict) for verdict in (*_SHOWN, Verdict.UNSUPPORTED)]
        yield join_cells((f"`{one.implementation.name}`", *(str(count) if count else "" for count in counts)))


def _build_section(library: Library, asked: Sequence[Asked]) -> Iterator[str]:
    of_library = [one for one in asked if one.library is library]
    yield from (f"## {library.title}", "")
    for one in of_library:
        results, asked_for = one.results, one.implementation.asked
        versions = ", ".join(f"{name} {version}" for name, version in results.versions.items())
        sizes = ", ".join(f"`{size}`" for size in results.sizes)
        yield f"- `{results.implementation}`: {asked_for} Asked on {results.date}, {versions}: the cases of {sizes}."
    yield from ("", f"Not offered: {library.lacks}", "")
    differences = [difference for one in of_library for difference in list_differences(one.results)]
    if not differences:
        yield from ("It answers as the kit does wherever it was asked.", "")
        return
    explained = explain(library, differences)
    yield "| deviation | matters | rules | of | smallest example | its answer | right |"
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
            _quote(write_question(dict(smallest.asked))),
            _quote(write_answer(dict(smallest.answer))) if smallest.answer else smallest.verdict,
            _quote(write_answer(dict(smallest.right))),
        )
    )


def _quote(text: str) -> str:
    return f"`` {text} ``" if "`" in text else f"`{text}`"


def _build_reason(deviation: Deviation | None, found: Sequence[Difference]) -> str:
    smallest = find_example(deviation, found)
    report = f" [Report](conformance/reports/{deviation.report}.md)." if deviation and deviation.report else ""
    why = f"{deviation.title}**: {deviation.why}" if deviation else f"{_UNEXPLAINED}**:"
    return f"- **{why}{report} The example is `{smallest.case}`. {smallest.because}"


def find_example(deviation: Deviation | None, found: Sequence[Difference]) -> Difference:
    """Returns the shortest of those that show how much a deviation matters, or of all where no verdict shows it."""
    verdict = _SHOWN_BY.get(deviation.matter) if deviation else None
    shown = [difference for difference in found if difference.verdict == verdict]
    return min(shown or found, key=lambda difference: len(json.dumps(difference.asked)))


def _build_reports(libraries: Sequence[Library]) -> Iterator[str]:
    for library in libraries:
        for report in list_reports(library):
            yield f"- [{read_title(report)}](conformance/reports/{report}.md)"
