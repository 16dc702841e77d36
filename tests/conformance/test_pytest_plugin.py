"""The pytest plugin, in sessions of pytest as users start them."""

import os
import shlex
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from importlib.metadata import entry_points
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from conformance_runs import write_program

PLUGIN = "tensor_reshape.conformance.pytest_plugin"
MINE = """
import os, time

def answer(query):
    name = query["id"].partition("@")[0]
    if name == "volume/same":
        os.abort()
    if name == "volume/to-a-scalar":
        raise NotImplementedError("scalars")
    if name == "volume/fewer-elements":
        raise ValueError
    return {"answer": {"shape": {"dims": [7]}}}
"""


class Session:
    """A session of pytest in a folder."""

    def __init__(self, folder: Path, *arguments: str, plugin: Sequence[str] = ("-p", PLUGIN)) -> None:
        (folder / "mine.py").write_text(MINE)
        (folder / "pytest.ini").touch()  # so the settings of this project do not apply
        command = (sys.executable, "-m", "pytest", *plugin, "--junitxml", "junit.xml", *arguments)
        env = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}  # other plugins take seconds to load
        ended = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, env=env)
        self.code, self.text, self.errors = ended.returncode, ended.stdout, ended.stderr
        xml = ET.parse(folder / "junit.xml").getroot() if (folder / "junit.xml").exists() else ET.Element("none")
        self.tests = {str(one.get("name")): next((part.tag for part in one), "passed") for one in xml.iter("testcase")}
        self.classes = {one.get("classname") for one in xml.iter("testcase")}


FUNCTION = ("--conformance-python", "mine:answer")
SHORT_START = """
from tensor_reshape.conformance import programs
programs.START_SECONDS = 0.2
"""


def test_pytest_runs_each_conformance_case_as_a_test(tmp_path: Path):
    session = Session(tmp_path, *FUNCTION, "-k", "core/volume")
    assert (session.code, session.classes) == (1, {"conformance.core.volume"})
    assert session.tests["volume/fewer-elements@reshape"] == "passed"
    assert session.tests["volume/to-a-scalar@reshape"] == "skipped"
    assert session.tests["volume/same@reshape"] == "failure"
    assert "  differs  SIGABRT" in session.text
    assert "Traceback" not in session.text


def test_conformance_tests_are_divided_between_processes(tmp_path: Path):
    session = Session(tmp_path, *FUNCTION, "-k", "core/volume", "-p", "xdist", "-n", "2", "-v")
    assert [process for process in ("[gw0] ", "[gw1] ") if process not in session.text] == []
    assert (session.code, len(session.tests)) == (1, 75)


def test_case_with_an_expected_verdict_fails_with_any_other_verdict(tmp_path: Path):
    (tmp_path / "conftest.py").write_text(f"""
import pytest
pytest_plugins = [{PLUGIN!r}]
EXPECTED = {{
    "volume/same@reshape": "crash", "volume/same@static_reshape": "wrong_shape",
    "volume/fewer-elements@reshape": "missing_error", "volume/to-a-scalar@reshape": "unsupported",
    "volume/same@dynamic_reshape": "wrong-shape",
}}

def pytest_collection_modifyitems(items):
    for item in items:
        if item.name in EXPECTED:
            item.add_marker(pytest.mark.conformance(verdict=EXPECTED[item.name]))
""")
    (tmp_path / "test_own.py").write_text("def test_own(): pass")
    session = Session(tmp_path, *FUNCTION, "--strict-markers", "-k", "test_own or core/volume", plugin=())
    assert session.tests["test_own"] == "passed"
    assert session.tests["volume/same@reshape"] == session.tests["volume/to-a-scalar@reshape"] == "skipped"  # xfailed
    assert session.tests["volume/same@static_reshape"] == session.tests["volume/fewer-elements@reshape"] == "failure"
    assert "expected wrong_shape, not crash" in session.text
    assert "expected missing_error, not agrees" in session.text
    assert "has the verdict 'wrong-shape'; use one of " in session.text


def test_conformance_tests_run_a_program_that_reads_all_queries_first(tmp_path: Path):
    program = shlex.join(
        write_program("for query in list(queries()): write({'id': query['id'], 'unsupported': 'anything'})")
    )
    session = Session(
        tmp_path, "--conformance-command", program, "--conformance-size", "hostile", "-k", "hostile/target"
    )
    assert (session.code, session.classes) == (0, {"conformance.hostile.target"})
    assert Counter(session.tests.values()).keys() == {"skipped"}


SILENT = f"{sys.executable} -c 'import time; time.sleep(100)'"


@pytest.mark.parametrize(
    ("program", "reason"),
    [
        ("false", "the program does not answer: exit code 1"),
        (SILENT, "the program does not answer: no answer in 0.2 s"),
        ("/no/such/program", "/no/such/program cannot be started: No such file or directory"),
    ],
)
def test_program_that_never_answers_fails_each_conformance_test(tmp_path: Path, program: str, reason: str):
    (tmp_path / "conftest.py").write_text(SHORT_START)
    session = Session(tmp_path, "--conformance-command", program, "--conformance-timeout", "0.2", "-k", "core/expected")
    assert (session.code, {*session.tests.values()}) == (1, {"failure"})
    assert reason in session.text
    assert "crash" not in session.text


MISTAKES = [
    (("--conformance-python", "json"), "is named MODULE:FUNCTION"),
    ((*FUNCTION, "--conformance-command", "cat"), "name one implementation, with --conformance-python or"),
]


@pytest.mark.parametrize(("options", "message"), MISTAKES)
def test_wrong_option_of_the_plugin_ends_the_session(tmp_path: Path, options: tuple[str, ...], message: str):
    session = Session(tmp_path, *options)
    assert (session.code, message in session.errors) == (4, True)


def test_plugin_is_loaded_only_on_request():
    assert [one.value for one in entry_points(group="pytest11") if "conformance" in one.value] == []
