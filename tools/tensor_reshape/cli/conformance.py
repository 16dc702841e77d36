"""The command that tests an implementation of the operations with the conformance suite."""

import secrets
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import click

from tensor_reshape.cli.conformance_reports import build_page, draw_report, write_report
from tensor_reshape.cli.consoles import find_console
from tensor_reshape.cli.options import NEW_FILE
from tensor_reshape.cli.outputs import write_file
from tensor_reshape.cli.progress_bars import count_replies
from tensor_reshape.client.defaults import DEFAULT_TIMEOUT_SECONDS
from tensor_reshape.conformance.cases import RULES, Case, Size, list_cases, read_version
from tensor_reshape.conformance.expectations import Deviations, compare, read_expectation, write_expectation
from tensor_reshape.conformance.junit import build_junit
from tensor_reshape.conformance.programs import ProgramError
from tensor_reshape.conformance.random_cases import make_random_cases, shrink, write_case
from tensor_reshape.conformance.results import Results, count_results, judge_replies, read_results
from tensor_reshape.conformance.runs import Program, build_function_command, run_program, split_command
from tensor_reshape.conformance.verdicts import Judgement
from tensor_reshape.rules.errors import escape_unprintable

if TYPE_CHECKING:
    from tensor_reshape.conformance.programs import Reply
    from tensor_reshape.wire.json_messages import Json

_Source = TypeVar("_Source")
_Value = TypeVar("_Value")

_MAX_SEED = 1_000_000  # short enough to be typed
_DIFFERENT = 1  # this is the exit code of a run with differences
_OLD_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
_HTML_OPTION = click.option("--html", type=NEW_FILE, help="Write the report to this file, as one HTML page.")
_EPILOG = """
A PROGRAM reads cases from standard input, one JSON object a line, and writes one answer a line: in the same order, or
in any order with the "id" of the case. A FUNCTION takes a case as a dict, and returns the answer as a dict.
conformance/README.md describes the format.

A program that crashes or hangs is started again. To test a server, use this program:
--command "tensor-reshape infer --batch - --server HOST:PORT".

The exit code is 1 if an answer is wrong or weaker and --expect does not list it, or if a listed difference is gone.
"""


@click.group(invoke_without_command=True, epilog=_EPILOG)
@click.option("--python", "function", metavar="MODULE:FUNCTION", help="Test a Python function, in its own process.")
@click.option("--command", metavar="PROGRAM", help="Test a program. Its arguments are split as in a shell.")
@click.option(
    "--size",
    "sizes",
    type=click.Choice([size.value for size in Size]),
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
@click.option("--name", help="The name of the implementation in the results. Default: its own, or the command.")
@click.option(
    "--version",
    "versions",
    metavar="NAME=VERSION",
    multiple=True,
    help="The version of a component, for the results. May be repeated.",
)
@click.option("--results", type=NEW_FILE, help="Write the results to this file, as JSON.")
@click.option("--expect", type=_OLD_FILE, help="The file of expected differences, as --write-expect writes it.")
@click.option("--write-expect", type=NEW_FILE, help="Write the differences of this run to this file, for --expect.")
@_HTML_OPTION
@click.option("--junit", type=NEW_FILE, help="Write the results to this file, as JUnit XML.")
def conformance(
    *,
    sizes: Sequence[str],
    rules: Sequence[str],
    expect: Path | None,
    number: int | None,
    seed: int | None,
    **options: Any,
) -> None:
    """Test an implementation of the operations with the conformance suite."""
    if click.get_current_context().invoked_subcommand is not None:
        return
    if (number, seed) != (None, None):
        _run_random(number, seed, sizes, rules, expect, options)
        return
    files: dict[str, Path | None] = {name: options.pop(name) for name in ("results", "write_expect", "html", "junit")}
    # The expectation file is read before the run, because the run takes long.
    expected = {} if expect is None else _read(read_expectation, expect)
    cases = list_cases(sizes or [Size.CORE], rules or RULES)
    if not cases:
        _reject("no case matches --size and --rule")
    results, judgements = _run(cases, sizes or [Size.CORE], **options)
    _print_report([results])
    builders: dict[str, Callable[[], bytes]] = {
        "results": lambda: results.write().encode(),
        "write_expect": lambda: write_expectation(results).encode(),
        "html": lambda: build_page([results]),
        "junit": lambda: build_junit(results.implementation, cases, judgements, expected),
    }
    for name, path in files.items():
        if path is not None:
            write_file(path, builders[name]())
    deviations = compare(results, expected, {case.id for case in cases})
    if expect is not None:
        click.echo("\n" + "\n".join(_list_deviations(deviations)))
    if files["write_expect"] is None and (deviations.new or deviations.gone):
        raise click.exceptions.Exit(_DIFFERENT)


@conformance.command()
@click.argument("files", metavar="RESULTS...", nargs=-1, required=True, type=_OLD_FILE)
@_HTML_OPTION
def report(*, files: Sequence[Path], html: Path | None) -> None:
    """Report on the results of one run, or compare several runs."""
    results = [_read(read_results, path) for path in files]
    _print_report(results)
    if html is not None:
        write_file(html, build_page(results))


def _run_random(
    number: int | None,
    seed: int | None,
    sizes: Sequence[str],
    rules: Sequence[str],
    expect: Path | None,
    options: dict[str, Any],
) -> None:
    """Runs random cases, and prints the smallest case for each kind of difference."""
    if number is None:
        _reject("--seed requires --random")
    files = [options.pop(name) for name in ("results", "write_expect", "html", "junit")]
    if sizes or rules or expect or any(files):
        _reject("--random makes its own cases and writes no files: use it without --size, --rule, --expect and files")
    if seed is None:
        seed = secrets.randbelow(_MAX_SEED)
    cases = make_random_cases(number, seed)
    results, judgements = _run(cases, [f"random, seed {seed}"], **options)
    _print_report([results])
    click.echo(f"\nTo repeat the run: --random {number} --seed {seed}")
    run = {name: options[name] for name in ("jobs", "timeout", "function", "command")}
    kinds = _list_kinds(cases, judgements)
    for verdict, case in kinds.items():
        smallest = shrink(case, verdict, partial(_find_differences, run))
        click.echo(f"The smallest case found with {verdict}:\n{write_case(smallest)}")
    if kinds:
        raise click.exceptions.Exit(_DIFFERENT)


def _list_kinds(cases: Sequence[Case], judgements: Mapping[str, Judgement]) -> dict[str, Case]:
    """Returns the first case with each verdict that is a difference."""
    kinds = dict[str, Case]()
    for case in cases:
        verdict = judgements[case.id].verdict
        if verdict.is_difference:
            kinds.setdefault(verdict, case)
    return kinds


def _find_differences(run: dict[str, Any], cases: Sequence[Case]) -> dict[str, str]:
    """Returns the verdicts of the cases with a difference."""
    _, replies, _ = _run_implementation(cases, **run)
    return {name: one.verdict for name, one in judge_replies(cases, replies).items() if one.verdict.is_difference}


def _run(
    cases: Sequence[Case],
    sizes: Sequence[str],
    *,
    name: str | None,
    versions: Sequence[str],
    jobs: int,
    timeout: float,
    **options: str | None,
) -> tuple[Results, Mapping[str, Judgement]]:
    given = dict(map(_split_version, versions))
    implementation, replies, introduction = _run_implementation(cases, jobs, timeout, **options)
    judgements = judge_replies(cases, replies)
    make = partial(
        Results,
        implementation=name or str(introduction.get("name") or implementation),
        versions=given or _read_versions(introduction.get("versions")),
        date=datetime.now(UTC).date().isoformat(),
        suite=read_version(),
        sizes=list(sizes),
    )
    return count_results(cases, replies, judgements, make), judgements


def _split_version(text: str) -> tuple[str, str]:
    name, _, version = text.partition("=")
    if not (name and version):
        _reject(f"--version requires NAME=VERSION, not {text!r}")
    return name, version


def _read_versions(value: object) -> dict[str, str]:
    return {name: str(version) for name, version in value.items()} if isinstance(value, dict) else {}


def _run_implementation(
    cases: Sequence[Case], jobs: int, timeout: float, *, function: str | None, command: str | None
) -> "tuple[str, Mapping[str, Reply], Json]":
    """Returns the name of the implementation, its replies, and the description that it has sent of itself."""
    name = function or command
    if name is None or None not in (function, command):
        _reject("name one implementation, with --python MODULE:FUNCTION or --command PROGRAM")
    if function and not all(function.partition(":")):
        _reject(f"--python requires MODULE:FUNCTION, for example mine:answer, not {function!r}")
    arguments = build_function_command(name) if function else _read(split_command, name)
    try:
        with count_replies(len(cases)) as on_reply:
            return name, *run_program(Program(arguments, timeout, jobs), cases, on_reply)
    except ProgramError as error:
        _reject(f"{name} does not answer: {error}")
    except OSError as error:
        _reject(f"{arguments[0]} cannot be started: {error.strerror}")


def _reject(message: str) -> NoReturn:
    raise click.UsageError(message) from None


def _read(read: Callable[[_Source], _Value], source: _Source) -> _Value:
    try:
        return read(source)
    except ValueError as error:
        _reject(str(error))


def _print_report(results: Sequence[Results]) -> None:
    console = find_console(sys.stdout)
    if console is None:
        click.echo("\n".join(map(escape_unprintable, "\n".join(write_report(results)).split("\n"))))
    else:
        draw_report(console, results)


def _list_deviations(deviations: Deviations) -> Iterator[str]:
    yield from (f"not expected: {name}: {verdict}" for name, verdict in deviations.new.items())
    yield from (f"expected, but gone: {name}: {verdict}" for name, verdict in deviations.gone.items())
    if not (deviations.new or deviations.gone):
        yield "all differences are expected"
