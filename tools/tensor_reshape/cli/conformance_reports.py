"""The report of a run of the conformance kit: on a terminal, in a pipe, and as a page of HTML."""

import io
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from tensor_reshape.conformance.matrices import build_matrix
from tensor_reshape.conformance.results import Difference, Results
from tensor_reshape.conformance.sentences import write_answer, write_question
from tensor_reshape.conformance.verdicts import Verdict
from tensor_reshape.rules.errors import escape_unprintable

if TYPE_CHECKING:
    from rich.console import Console

_INDENT = "  "
_PAGE_COLUMNS = 120
_PAGE_EXAMPLES = 40
"""How many differences of a verdict and a rule are on a page: the smallest."""


def write_report(results: Sequence[Results]) -> Iterator[str]:
    """Yields the report as plain text, a line or a table each."""
    yield from map(write_title, results)
    yield f"\n{build_matrix(results).write()}"
    for one in results:
        for difference, count in list_examples(one):
            yield f"\n{_write_head(one if len(results) > 1 else None, difference, count)}"
            yield from (f"{_INDENT}{key:<9}{text}" for key, text in list_facts(difference))
        yield from (f"\n{line}" for line in _list_notes(one))


def build_page(results: Sequence[Results]) -> bytes:
    """Returns the report as a page of HTML that needs nothing but itself."""
    from rich.console import Console  # noqa: PLC0415 - plain output does without it

    console = Console(file=io.StringIO(), record=True, width=_PAGE_COLUMNS, highlight=False)
    draw_report(console, results, _PAGE_EXAMPLES)
    return console.export_html().encode()


def draw_report(console: "Console", results: Sequence[Results], examples: int = 1) -> None:
    """Draws the same.

    Args:
        console: where.
        results: of one run, or of several.
        examples: how many of each verdict of each rule are drawn.
    """
    from rich.table import Column, Table  # noqa: PLC0415 - plain output does without it
    from rich.text import Text  # noqa: PLC0415 - as above

    for one in results:
        console.print(escape_unprintable(write_title(one)), markup=False)
    matrix = build_matrix(results)
    first, *rest = (escape_unprintable(name) for name in matrix.head)
    table = Table(Column(first), *(Column(name, justify="right") for name in rest))
    for row in matrix.rows:
        table.add_row(*(Text(escape_unprintable(cell)) for cell in row), end_section=row is matrix.rows[-2])
    console.print(table)
    for one in results:
        for difference, count in list_examples(one, examples):
            head = _write_head(one if len(results) > 1 else None, difference, count)
            style = "bold red" if difference.verdict.is_difference else "bold green"
            console.print(Text(escape_unprintable(head), style))
            for key, text in list_facts(difference):
                console.print(Text.assemble(_INDENT, (f"{key:<9}", "dim"), escape_unprintable(text)))
        for line in _list_notes(one):
            console.print(escape_unprintable(line), markup=False)


def write_title(results: Results) -> str:
    """Returns what was asked, and how much."""
    versions = ", ".join(f"{name} {version}" for name, version in results.versions.items())
    sizes = ", ".join(results.sizes)
    told = f" ({versions})" if versions else ""
    return f"{results.implementation}{told}: {results.total} questions of the conformance kit {results.kit}, {sizes}"


def list_examples(results: Results, examples: int = 1) -> Iterator[tuple[Difference, int]]:
    """Yields the smallest examples of each verdict of each rule, the worst verdict first, and how many there are.

    Those after the first of a kind come with 1.
    """
    for verdict in Verdict:
        for rule in results.list_rules():
            smallest = results.list_differences(rule, verdict)[:examples]
            yield from ((one, 1 if place else results.count(verdict, rule)) for place, one in enumerate(smallest))


def list_facts(difference: Difference) -> Iterator[tuple[str, str]]:
    """Yields what there is to say of a difference, by a word each."""
    yield "asked", write_question(difference.question)
    yield "right", write_answer(difference.right)
    if difference.answer is not None:
        yield "answer", write_answer(difference.answer)
    if difference.why:
        yield "that is", difference.why
    yield "because", difference.because


def _write_head(results: Results | None, difference: Difference, count: int) -> str:
    name = "" if results is None else f"{results.implementation}: "
    more = "" if count == 1 else f", the smallest of {count}"
    return f"{name}{difference.verdict}, {difference.rule}: {difference.id}{more}"


def _list_notes(results: Results) -> Iterator[str]:
    for why, count in results.unsupported.items():
        yield f"not offered, {count} questions: {why}"
    for reasons, count in results.other_reasons.items():
        yield f"refused for another reason, which is no difference, {count} questions: {reasons}"
