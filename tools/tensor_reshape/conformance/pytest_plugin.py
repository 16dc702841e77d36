"""A pytest plugin that runs each case of the conformance suite as a pytest test of an implementation.

pytest does not find the plugin by itself: name it with `-p tensor_reshape.conformance.pytest_plugin`, or in
`pytest_plugins` of a conftest.py. If neither `--conformance-python` nor `--conformance-command` is set, the plugin adds
no tests.

Invariant: the tested program gets all selected cases of a rule at once, so it may read all queries before it answers.
"""

from collections.abc import Generator, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from tensor_reshape.client.arguments import DEFAULT_TIMEOUT_SECONDS
from tensor_reshape.conformance.cases import RULES, Case, SuiteSize, list_cases
from tensor_reshape.conformance.programs import (
    ProgramError,
    ProgramReply,
    build_function_command,
    run_program,
    split_command,
)
from tensor_reshape.conformance.results import judge_reply
from tensor_reshape.conformance.verdicts import CaseVerdict
from tensor_reshape.rules.errors import escape_unprintable

_VERDICTS = ", ".join(CaseVerdict)


class DifferenceError(Exception):
    """The answer to a case differs from the right answer. The error text describes the difference."""


def pytest_configure(config: pytest.Config) -> None:
    """Registers the pytest mark `conformance`, which sets the verdict that a test expects."""
    config.addinivalue_line("markers", "conformance(verdict): the answer to the case must have this verdict")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds the options that choose the implementation and the cases."""
    group = parser.getgroup("conformance", "conformance suite of tensor-reshape")
    group.addoption("--conformance-python", metavar="MODULE:FUNCTION", help="Test a Python function.")
    group.addoption("--conformance-command", metavar="PROGRAM", help="Test a program. Its arguments are split.")
    group.addoption(
        "--conformance-size",
        choices=[str(size) for size in SuiteSize],
        action="append",
        help="A part of the suite to run. May be repeated. Default: core.",
    )
    group.addoption(
        "--conformance-timeout",
        type=_read_seconds,
        default=DEFAULT_TIMEOUT_SECONDS,
        metavar="SECONDS",
        help="The timeout of each case.",
    )


def _read_seconds(text: str) -> float:
    seconds = float(text)
    if not seconds > 0:
        raise ValueError  # pytest's own message names the option and the text
    return seconds


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Adds a collector for each rule of the suite to the files that pytest collects."""
    report = yield
    if isinstance(collector, pytest.Session) and _find_command(collector.config):
        sizes = dict.fromkeys(collector.config.getoption("--conformance-size") or [SuiteSize.CORE])
        for size, rule in product(sizes, RULES):
            name = f"conformance/{size}/{rule}"
            report.result.append(_Rule.from_parent(collector, name=name, nodeid=name, cases=list_cases([size], [rule])))
    return report


def _find_command(config: pytest.Config) -> Sequence[str]:
    """Returns the command of the program to test, or an empty command if the options name no program."""
    function, command = config.getoption("--conformance-python"), config.getoption("--conformance-command")
    if function and command:
        raise pytest.UsageError("name one implementation, with --conformance-python or --conformance-command")
    try:
        return build_function_command(function) if function else split_command(command) if command else ()
    except ValueError as error:
        raise pytest.UsageError(str(error)) from None


class _Rule(pytest.Collector):
    """Collects the test cases of one rule and one size of the suite."""

    def __init__(self, *, cases: Sequence[Case], **options: Any) -> None:
        super().__init__(**options)
        self._cases = cases

    def collect(self) -> "Iterator[_Item]":
        return (_Item.from_parent(self, name=case.id, case=case) for case in self._cases)

    @cached_property
    def replies(self) -> Mapping[str, ProgramReply] | str:
        """The replies to the selected cases by their ids, or an error text if the program does not answer."""
        cases = [item.case for item in self.session.items if isinstance(item, _Item) and item.parent is self]
        command = _find_command(self.config)
        try:
            return run_program(command, cases, self.config.getoption("--conformance-timeout"))[0]
        except SystemExit as error:  # a signal has ended the run, but pytest would only count this as a failed test
            pytest.exit("the run was ended by a signal", returncode=int(error.code or 0))
        except ProgramError as error:
            return f"the program does not answer: {error}"
        except OSError as error:
            return f"{command[0]} cannot be started: {error.strerror}"


class _Item(pytest.Item):
    """The pytest test of one case of the suite."""

    def __init__(self, *, case: Case, **options: Any) -> None:
        super().__init__(**options)
        self.case = case

    def runtest(self) -> None:
        assert isinstance(self.parent, _Rule)  # noqa: S101 - for type checkers
        replies = self.parent.replies
        if isinstance(replies, str):
            raise DifferenceError(escape_unprintable(replies))
        result = judge_reply(self.case, replies[self.case.id])
        text = "\n".join(map(escape_unprintable, [result.verdict, *result.describe()]))
        mark = self.get_closest_marker("conformance")
        if mark is not None:
            expected = mark.args[0] if mark.args else mark.kwargs.get("verdict")
            if expected not in list(CaseVerdict):
                raise DifferenceError(f"the mark `conformance` has the verdict {expected!r}; use one of {_VERDICTS}")
            if expected != result.verdict:
                raise DifferenceError(f"expected {expected}, not {text}")
            pytest.xfail(escape_unprintable(result.why))
        if result.verdict is CaseVerdict.UNSUPPORTED:
            pytest.skip(escape_unprintable(result.why))
        if result.verdict.is_difference:
            raise DifferenceError(text)

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:  # noqa: ANN401 - as in pytest
        """Returns the text of a failure. If the answer differs from the right answer, the text has no traceback."""
        return str(excinfo.value) if excinfo.errisinstance(DifferenceError) else super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, None, str]:
        """Returns the path of the test, and its title for the report of failures."""
        return self.path, None, self.name
