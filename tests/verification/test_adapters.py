"""The adapters of libraries: their common frame, the descriptions of the libraries, and the reports."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from conformance.adapters.libraries import Matter
from conformance.adapters.questions import Unknown, read_question, write_answer
from tensor_reshape.conformance.cases import SuiteSize, list_cases
from tensor_reshape.conformance.verdicts import CaseVerdict
from verification.adapters import (
    ADAPTERS,
    NAMES,
    REPORTS,
    ROOT,
    explain,
    find_cause,
    list_differences,
    list_reports,
    load_libraries,
    load_library,
    read_programs,
    read_results,
    read_title,
)

LIBRARIES = {name: load_library(name) for name in NAMES}
RESULTS = read_results()
DEFECTS = set(Matter) - {Matter.WEAKER_ANSWER, Matter.OTHER_DEFINITION}
ASKED: dict[str, Any] = {
    "operation": "OPERATION_RESHAPE",
    "data": {"shape": {"dims": [2, 3]}},
    "shape": {"items": [-1]},
    "specialZero": False,
}


def _multiply(*names: str, **numbers: Any) -> dict[str, Any]:
    """Returns the entry of a product, with the fields that an adapter writes."""
    factors = [{"name": name} for name in names]
    plain = {"coefficient": 1, "divisor": 1, "factors": factors, "divisors": [], "bounds": {"min": 0}}
    return {"expression": {**plain, **numbers}}


TOY_LIBRARY = """
title = "Toy"
distributions = ["numpy"]
lacks = ""
implementations = [{name = "toy", asked = "."}]
"""
TOY_ADAPTER = """
import os
import signal

from conformance.adapters.programs import Rejected, Unsupported, run
from conformance.adapters.questions import write_answer


def answer(question):
    print("what a library prints")
    os.write(1, b"what a library in C prints\\n")
    if question.shape == (-2,):
        os.kill(os.getpid(), signal.SIGSEGV)
    if question.shape == (5,):
        raise Rejected("6 elements are not 5")
    if question.operation != "reshape":
        raise Unsupported("It has Reshape-1 alone.")
    return write_answer([6])


if __name__ == "__main__":
    run({"other": lambda question: write_answer([]), "toy": answer})
"""


def test_library_adapter_sends_its_versions_and_survives_crashes(tmp_path: Path):
    folder = tmp_path / "conformance/adapters/toy"
    folder.mkdir(parents=True)
    folder.with_suffix(".toml").write_text(TOY_LIBRARY)
    (folder / "adapter.py").write_text(TOY_ADAPTER)
    shapes = [{"shape": {"items": [item]}} for item in (5, -2)]
    malformed = {"data": {"shape": {"dims": [2, 3], "partial": [{"index": 1, "interval": {}}]}}}
    changes: list[dict[str, Any]] = [
        {},
        shapes[0],
        {"operation": "OPERATION_STATIC_RESHAPE"},
        malformed,
        shapes[1],
    ]
    asked = "".join(
        f"{json.dumps({'id': str(number), 'question': {**ASKED, **change}})}\n"
        for number, change in enumerate(changes, 1)
    )

    command = [sys.executable, "-m", "conformance.adapters.toy.adapter", "toy"]
    env = {**os.environ, "PYTHONPATH": str(tmp_path)}
    ended = subprocess.run(command, input=asked, capture_output=True, text=True, check=False, cwd=ROOT, env=env)
    introduction, *answers = map(json.loads, ended.stdout.splitlines())

    assert introduction["implementation"]["name"] == "toy"
    assert list(introduction["implementation"]["versions"]) == ["numpy"]
    assert answers == [
        {"id": "1", "answer": {"shape": {"dims": [6], "partial": []}}},
        {"id": "2", "rejection": {"message": "6 elements are not 5"}},
        {"id": "3", "unsupported": "It has Reshape-1 alone."},
        {"id": "4", "unsupported": "It has no form for a message that is not valid."},
    ]
    assert ended.returncode == -signal.SIGSEGV


# An entry of `partial`, and the dim that it describes.
ENTRIES: list[tuple[dict[str, Any], Unknown]] = [
    ({}, Unknown()),
    ({"interval": {"min": 2, "max": 8}}, Unknown(2, 8)),
    ({"interval": {"min": 2}}, Unknown(2)),
    ({"symbol": {"name": "N", "bounds": {"min": 1, "max": 8}}}, Unknown(1, 8, "N")),
    ({"symbol": {"name": "seq + past", "bounds": {"min": 0}}}, Unknown(name="seq + past")),
    (_multiply("C", coefficient=4), Unknown(name="4*C")),
    (_multiply("N", "N", "M", divisor=2), Unknown(name="N^2*M/2")),
    (_multiply("N", divisor=2, divisors=[{"name": "M"}]), Unknown(name="N/(2*M)")),
]


def test_library_adapter_reads_names_and_bounds_of_dims():
    partial = [{"index": index, **entry} for index, (entry, _) in enumerate(ENTRIES)]
    shape = {"dims": [-1] * len(ENTRIES) + [-1, 7], "partial": partial}
    dims = (*(dim for _, dim in ENTRIES), Unknown(), 7)
    assert read_question({"question": {**ASKED, "data": {"shape": shape}}}).data == dims


def test_library_adapter_writes_dims_in_the_conformance_format():
    written = write_answer([7, *(dim for _, dim in ENTRIES)])["answer"]["shape"]
    assert written["dims"] == [7] + [-1] * len(ENTRIES)
    assert written["partial"] == [{"index": index, **entry} for index, (entry, _) in enumerate(ENTRIES, 1)]
    assert write_answer(None) == {"answer": {}}
    assert write_answer([2], b"\0\1") == {"output": {"dims": [2], "data": "AAE="}}


def test_library_adapters_read_every_conformance_case():
    for case in list_cases(list(SuiteSize)):
        assert read_question(case.query).operation == case.id.partition("@")[2]


def test_library_adapters_pin_their_library_versions():
    for name, library in LIBRARIES.items():
        pins = [line for line in (ADAPTERS / name / "requirements.txt").read_text().splitlines() if line[:1].isalnum()]
        assert [pin for pin in pins if "==" not in pin] == [], name
        assert set(library.distributions) <= {pin.partition("==")[0] for pin in pins}, name


def test_recorded_library_results_match_the_current_conformance_cases():
    for name, results in RESULTS.items():
        cases = {case.id: case for case in list_cases(results.sizes)}
        assert sum(map(results.count, CaseVerdict)) == len(cases), name
        for one in results.differences:
            query = {key: value for key, value in cases[one.id].query.items() if key != "id"}
            assert (one.query, one.right) == (query, cases[one.id].right), name


def test_each_library_has_recorded_results_for_its_case_sizes():
    asked = {one.name: list(one.sizes) for library in LIBRARIES.values() for one in library.implementations}

    assert {name: [str(size) for size in results.sizes] for name, results in RESULTS.items()} == asked


def test_results_outside_core_cases_record_each_difference_once():
    core = {case.id for case in list_cases([SuiteSize.CORE])}
    for library in LIBRARIES.values():
        for way in library.implementations:
            others = [one for one in list_differences(RESULTS[way.name]) if one.case not in core]
            kinds = [(find_cause(library, one), one.rule, one.verdict) for one in others]
            assert len(set(kinds)) == len(kinds), way.name


def test_each_recorded_library_difference_is_explained():
    for name, library in LIBRARIES.items():
        differences = [one for way in library.implementations for one in list_differences(RESULTS[way.name])]
        explained = explain(library, differences)
        assert [(one.case, one.verdict) for one in explained.get(None, [])] == [], name
        assert [deviation.title for deviation in library.deviations if deviation not in explained] == [], name
        assert [one.title for one in library.deviations if bool(one.report) != (one.matter in DEFECTS)] == [], name


def test_each_bug_report_describes_a_known_library_deviation():
    reports = [report for library in load_libraries() for report in list_reports(library)]

    assert sorted(reports) == sorted(path.stem for path in REPORTS.glob("*.md"))


def test_library_bug_reports_have_program_output_and_expectation():
    for path in REPORTS.glob("*.md"):
        text, programs = path.read_text(), read_programs(path.stem)
        assert read_title(path.stem), path
        assert [program for program in programs if not program.output.strip()] == [], path
        assert len(programs) == text.count("\n```py\n") + text.count("\n```cpp\n") > 0, path
        assert "**Expected.**" in text, path


def test_library_adapters_do_not_import_the_project():
    sources: Sequence[Path] = sorted(ADAPTERS.rglob("*.py"))

    assert [str(path) for path in sources if "tensor_reshape" in path.read_text()] == []
