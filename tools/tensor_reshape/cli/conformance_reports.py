"""Writes the report of a conformance run for a terminal, for a pipe, or as an HTML page."""

import io
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from tensor_reshape.conformance.descriptions import describe_answer, describe_query
from tensor_reshape.conformance.results import Difference, Results
from tensor_reshape.conformance.tables import build_table
from tensor_reshape.conformance.verdicts import Verdict
from tensor_reshape.rules.errors import escape_unprintable

if TYPE_CHECKING:
    from rich.console import Console

_INDENT = "  "
_PAGE_COLUMNS = 120
_PAGE_EXAMPLES = 40
"""The maximum number of differences on a page for each pair of a verdict and a rule.

The page shows the differences with the smallest cases.
"""


def write_report(results: Sequence[Results]) -> Iterator[str]:
    """Yields the report as plain text, one line or table at a time."""
    yield from map(write_title, results)
    yield f"\n{build_table(results).write()}"
    for one in results:
        for difference, count in list_examples(one):
            yield f"\n{_write_header(one if len(results) > 1 else None, difference, count)}"
            yield from (f"{_INDENT}{key:<9}{text}" for key, text in list_facts(difference))
        yield from (f"\n{line}" for line in _list_notes(one))


def build_page(results: Sequence[Results]) -> bytes:
    """Returns the report as an HTML page without external resources."""
    from rich.console import Console  # noqa: PLC0415 - plain output does not need it

    console = Console(file=io.StringIO(), record=True, width=_PAGE_COLUMNS, highlight=False)
    draw_report(console, results, _PAGE_EXAMPLES)
    return console.export_html().encode()


def draw_report(console: "Console", results: Sequence[Results], examples: int = 1) -> None:
    """Draws the report on a terminal.

    Args:
        console: the console of the terminal.
        results: the results of one run or of several runs.
        examples: the maximum number of examples for each pair of a verdict and a rule.
    """
    from rich.table import Column  # noqa: PLC0415 - plain output does not need it
    from rich.table import Table as RichTable  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    for one in results:
        console.print(escape_unprintable(write_title(one)), markup=False)
    table = build_table(results)
    first, *rest = (escape_unprintable(name) for name in table.header)
    drawn = RichTable(Column(first), *(Column(name, justify="right") for name in rest))
    for row in table.rows:
        drawn.add_row(*(Text(escape_unprintable(cell)) for cell in row), end_section=row is table.rows[-2])
    console.print(drawn)
    for one in results:
        for difference, count in list_examples(one, examples):
            header = _write_header(one if len(results) > 1 else None, difference, count)
            style = "bold red" if difference.verdict.is_difference else "bold green"
            console.print(Text(escape_unprintable(header), style))
            for key, text in list_facts(difference):
                console.print(Text.assemble(_INDENT, (f"{key:<9}", "dim"), escape_unprintable(text)))
        for line in _list_notes(one):
            console.print(escape_unprintable(line), markup=False)


def write_title(results: Results) -> str:
    """Returns the name of the implementation and the number of cases."""
    components = ", ".join(f"{name} {version}" for name, version in results.versions.items())
    versions = f" ({components})" if components else ""
    sizes = ", ".join(results.sizes)
    return (
        f"{results.implementation}{versions}: {results.total} cases of the conformance suite {results.suite}, {sizes}"
    )


def list_examples(results: Results, examples: int = 1) -> Iterator[tuple[Difference, int]]:
    """Yields the smallest examples for each pair of a verdict and a rule, beginning with the worst verdict.

    Each example comes with a number of differences. For the first example of a pair, this is the number of all
    differences of the pair. For every other example, the number is 1.
    """
    for verdict in Verdict:
        for rule in results.list_rules():
            smallest = results.list_differences(rule, verdict)[:examples]
            yield from ((one, 1 if place else results.count(verdict, rule)) for place, one in enumerate(smallest))


def list_facts(difference: Difference) -> Iterator[tuple[str, str]]:
    """Yields the facts about a difference, each with a label."""
    yield "case", describe_query(difference.query)
    yield "expected", describe_answer(difference.right)
    if difference.answer is not None:
        yield "answer", describe_answer(difference.answer)
    if difference.why:
        yield "differs", difference.why
    yield "because", difference.because


def _write_header(results: Results | None, difference: Difference, count: int) -> str:
    name = "" if results is None else f"{results.implementation}: "
    more = "" if count == 1 else f", the smallest of {count}"
    return f"{name}{difference.verdict}, {difference.rule}: {difference.id}{more}"


def _list_notes(results: Results) -> Iterator[str]:
    for why, count in results.unsupported.items():
        yield f"not supported, {count} cases: {why}"
    for reasons, count in results.other_reasons.items():
        yield f"rejected with another reason, which is not a difference, {count} cases: {reasons}"
