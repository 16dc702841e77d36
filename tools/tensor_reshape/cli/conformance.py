"""The command that tests an implementation of the operations with the conformance suite."""

import json
import secrets
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any, NoReturn

import click

from tensor_reshape.client.arguments import DEFAULT_TIMEOUT_SECONDS
from tensor_reshape.conformance.cases import RULES, Case, SuiteSize, list_cases, read_version
from tensor_reshape.conformance.programs import ProgramError, build_function_command, run_program, split_command
from tensor_reshape.conformance.random_cases import make_random_cases, shrink, write_case
from tensor_reshape.conformance.results import Result, Results, count_results, judge_reply, measure_query
from tensor_reshape.conformance.verdicts import CaseVerdict
from tensor_reshape.rules.errors import escape_unprintable
from tensor_reshape.wire.json_messages import Json

_MAX_SEED = 1_000_000  # a random seed is a small number, so that a user can type it again
_DIFFERENT = 1  # the exit code of a run with differences
_EPILOG = """
A PROGRAM reads cases from standard input, one JSON object a line, and writes one answer a line: in the same order, or
in any order with the "id" of the case. A FUNCTION takes a case as a dict, and returns the answer as a dict.
conformance/README.md describes the format.

A program that crashes or hangs is started again. To test a server, use this program:
--command "tensor-reshape infer --batch - --server HOST:PORT".

The exit code is 1 if an answer is wrong or weaker.
"""


@click.command(epilog=_EPILOG)
@click.option("--python", "function", metavar="MODULE:FUNCTION", help="Test a Python function, in its own process.")
@click.option("--command", metavar="PROGRAM", help="Test a program. Its arguments are split as in a shell.")
@click.option(
    "--size",
    "sizes",
    type=click.Choice([size.value for size in SuiteSize]),
    multiple=True,
    help="A part of the suite to run. May be repeated. Default: core.",
)
@click.option(
    "--rule", "rules", type=click.Choice(RULES), multiple=True, help="Run only the cases of this rule. May be repeated."
)
@click.option(
    "--random",
    "number",
    type=click.IntRange(min=1),
    help="Run this number of random cases in place of the suite, and print the smallest case of each difference.",
)
@click.option(
    "--seed", type=click.IntRange(min=0), help="The seed of the random cases. Default: another one each time."
)
@click.option(
    "--jobs", type=click.IntRange(min=1), default=1, show_default=True, help="The number of parallel processes."
)
@click.option(
    "--timeout",
    type=click.FloatRange(min=0, min_open=True),
    default=DEFAULT_TIMEOUT_SECONDS,
    show_default=True,
    help="The timeout of each case, in seconds.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the results as JSON.")
def conformance(
    *, sizes: Sequence[str], rules: Sequence[str], number: int | None, seed: int | None, as_json: bool, **program: Any
) -> None:
    """Test an implementation of the operations with the conformance suite."""
    if number is None and seed is not None:
        _reject("--seed requires --random")
    if number is not None and (sizes or rules):
        _reject("--random makes its own cases: remove --size and --rule")
    if number is None:
        sizes = sizes or [SuiteSize.CORE]
        cases = list_cases(sizes, rules or RULES)
    else:
        seed = secrets.randbelow(_MAX_SEED) if seed is None else seed
        sizes, cases = [f"random, seed {seed}"], make_random_cases(number, seed)
    if not cases:
        _reject("no case matches --size and --rule")
    rows, introduction = _run(cases, **program)
    name, today = program["function"] or program["command"], datetime.now(UTC).date().isoformat()
    results = count_results(rows, name, introduction, date=today, suite=read_version(), sizes=sizes)
    if not as_json:
        click.echo("\n".join(map(escape_unprintable, _write_report(results))))
    wrong = [(one.verdict, case) for case, one in zip(cases, rows, strict=True) if one.verdict.is_difference]
    kinds = {} if number is None else dict(reversed(wrong))  # the first case with each verdict
    smallest = {verdict: write_case(shrink(case, verdict, partial(_find, program))) for verdict, case in kinds.items()}
    if as_json:
        found = {verdict: json.loads(line) for verdict, line in smallest.items()}
        click.echo(json.dumps(results.to_json() | ({} if number is None else {"smallest": found})))
    for verdict, line in {} if as_json else smallest.items():
        click.echo(f"\nThe smallest case found with {verdict}:\n{escape_unprintable(line)}")
    if wrong:
        raise click.exceptions.Exit(_DIFFERENT)


def _run(
    cases: Sequence[Case], *, function: str | None, command: str | None, timeout: float, jobs: int
) -> tuple[list[Result], Json]:
    """Runs the implementation, and returns the result of each case and the implementation's description of itself."""
    name = function or command
    if name is None or None not in {function, command}:
        _reject("name one implementation, with --python MODULE:FUNCTION or --command PROGRAM")
    try:
        arguments = build_function_command(name) if function else split_command(name)
    except ValueError as error:
        _reject(str(error))
    try:
        replies, introduction = run_program(arguments, cases, timeout, jobs)
    except ProgramError as error:
        _reject(f"{name} does not answer: {error}")
    except OSError as error:
        _reject(f"{arguments[0]} cannot be started: {error.strerror}")
    return [judge_reply(case, replies[case.id]) for case in cases], introduction


def _find(program: dict[str, Any], cases: Sequence[Case]) -> Mapping[str, str]:
    """Returns the verdict of each case with a difference. The mapping is empty if the program answers no case."""
    try:
        rows, _ = _run(cases, **program)
    except click.UsageError:
        return {}
    return {one.id: one.verdict for one in rows if one.verdict.is_difference}


def _reject(message: str) -> NoReturn:
    raise click.UsageError(message) from None


def _write_report(results: Results) -> Iterator[str]:
    """Yields the lines of the report, with the smallest difference for each pair of a verdict and a rule."""
    versions = ", ".join(f"{name} {version}" for name, version in results.versions.items())
    counts = {verdict: results.count(verdict) for verdict in reversed(CaseVerdict)}
    title = f"{results.implementation} ({versions})" if versions else results.implementation
    yield f"{title}: {sum(counts.values())} cases of the conformance suite {results.suite}, {', '.join(results.sizes)}"
    yield ", ".join(f"{count} {verdict}" for verdict, count in counts.items() if count)
    kinds = dict[tuple[CaseVerdict, str], list[Result]]()
    for one in results.differences:
        kinds.setdefault((one.verdict, one.rule), []).append(one)
    for verdict, rule in sorted(kinds, key=lambda kind: (list(CaseVerdict).index(kind[0]), RULES.index(kind[1]))):
        found = kinds[verdict, rule]
        smallest = min(found, key=measure_query)
        yield ""
        yield f"{verdict}, {rule}: {smallest.id}" + (f", the smallest of {len(found)}" if len(found) > 1 else "")
        yield from smallest.describe()
    for why, count in results.unsupported.items():
        yield ""
        yield f"not supported, {count} cases: {why}"
