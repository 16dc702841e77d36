"""Runs the queries of the conformance suite against libraries, and writes their answers to files.

Each library has its own environment, because their pinned requirements conflict. It is made again only if its
requirements change, or the script that builds more for it. The answers of each implementation go to
`conformance/results/IMPLEMENTATION.json`, from which `scripts/site` writes docs/conformance.md:

- All answers are counted. All differences of the core are listed. Of the other sizes, only the smallest difference of
  each cause, rule and verdict is listed, because the page shows only this one.
- To read these files, no library is needed.

The programs of the reports are run as well, each in the environment of its library, and must print the output on the
page.
"""

import argparse
import hashlib
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import venv
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import NamedTuple

from conformance.adapters.deviations import read_library
from conformance.adapters.libraries import Deviation, Difference, Implementation, Library, Matter
from conformance.adapters.questions import read_question
from tensor_reshape.conformance.cases import SuiteSize, list_cases
from tensor_reshape.conformance.results import Result, Results, measure_query
from tensor_reshape.conformance.verdicts import CaseVerdict

ROOT = Path(__file__).parents[1]
ADAPTERS = ROOT / "conformance/adapters"
ENVIRONMENTS = ROOT / ".venv-adapters"
RESULTS = ROOT / "conformance/results"
REPORTS = ROOT / "docs/conformance/reports"


class Environment:
    def __init__(self, name: str) -> None:
        """Sets the paths, and makes nothing."""
        self.name = name  # the name of the adapter's folder
        self.folder = ENVIRONMENTS / name  # the folder of the environment
        self.python = self.folder / "bin/python"  # the interpreter of the environment

    def prepare(self) -> None:
        """Makes the environment if it does not exist or is out of date."""
        adapter, mark = ADAPTERS / self.name, self.folder / "prepared"
        sources = [path for path in sorted(adapter.iterdir()) if path.is_file() and path.suffix != ".py"]
        digest = hashlib.sha256(b"".join(map(Path.read_bytes, sources))).hexdigest()
        if mark.exists() and mark.read_text() == digest:
            return
        venv.create(self.folder, clear=True)
        # The pip of this machine runs the installation, because its settings name the package index.
        install = ["install", "--quiet", "--disable-pip-version-check", "-r", str(adapter / "requirements.txt")]
        # This environment may have no pip, but the interpreter that made it has one.
        python = Path(sys.base_prefix) / "bin" / f"python{sys.version_info.major}.{sys.version_info.minor}"
        subprocess.run([python, "-m", "pip", "--python", str(self.python), *install], check=True)
        if (adapter / "build").exists():
            subprocess.run([adapter / "build", self.folder], check=True, cwd=ROOT)
        mark.write_text(digest)


NAMES = sorted(path.stem for path in ADAPTERS.glob("*.toml"))


def load_library(name: str) -> Library:
    return read_library(ADAPTERS / f"{name}.toml")


def load_libraries() -> list[Library]:
    return [load_library(name) for name in NAMES]


def list_reports(library: Library) -> list[str]:
    return list(dict.fromkeys(deviation.report for deviation in library.deviations if deviation.report))


def read_results() -> dict[str, Results]:
    return {path.stem: parse_results(path.read_text(encoding="utf-8")) for path in sorted(RESULTS.glob("*.json"))}


def parse_results(text: str) -> Results:
    """Returns the results in an output of the command, or in a committed file."""
    record = json.loads(text)
    rows = [Result(**{**row, "verdict": CaseVerdict(row["verdict"])}) for row in record.pop("differences")]
    return Results(**record, differences=rows)


def format_results(results: Results) -> str:
    """Returns the contents of the file of an implementation, with a line for each difference."""
    record = results.to_json()
    rows = ",\n".join(f" {json.dumps(one)}" for one in record.pop("differences"))
    lines = [f"{json.dumps(key)}: {json.dumps(value)}" for key, value in record.items()]
    return "{" + ",\n".join([*lines, f'"differences": [\n{rows}\n]' if rows else '"differences": []']) + "}\n"


def trim(results: Results, explain: Callable[[Difference], object]) -> Results:
    """Returns results that are short enough for git: outside the core, with one difference for each cause."""
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


_PROGRAM = re.compile(r"^```(py|cpp)\n(.*?)^```$.*?^```text\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_TRAILING = re.compile(r" +$", re.MULTILINE)
_SECONDS = 120


class Program(NamedTuple):
    language: str  # "py" or "cpp"
    text: str  # the source code
    output: str  # the expected output


def read_programs(report: str) -> list[Program]:
    return [Program(*groups) for groups in _PROGRAM.findall((REPORTS / f"{report}.md").read_text())]


def read_title(report: str) -> str:
    return (REPORTS / f"{report}.md").read_text().partition("\n")[0].removeprefix("# ")


def check(report: str, environment: Environment) -> Iterator[str]:
    """Yields the differences between the printed output and the report."""
    for program in read_programs(report):
        printed = run_program(program, environment)
        if printed != program.output.strip():
            yield f"{report} prints\n{printed}\n  instead of\n{program.output.strip()}"


def run_program(program: Program, environment: Environment) -> str:
    """Returns the output of a program, and the signal that ended it."""
    with tempfile.TemporaryDirectory() as folder:
        ended = subprocess.run(
            _prepare(program, environment, Path(folder)),
            check=False,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            timeout=_SECONDS,
            cwd=folder,
            # oneDNN finds no processor without this runtime (conformance/adapters/onednn/adapter.py).
            env={**os.environ, "OCL_ICD_FILENAMES": str(environment.folder / "lib/libintelocl.so")},
        )
    end = signal.Signals(-ended.returncode).name if ended.returncode < 0 else ""
    return _TRAILING.sub("", f"{ended.stdout}{end}").strip()


def _prepare(program: Program, environment: Environment, folder: Path) -> list[str]:
    """Returns the command that runs a program. A C++ program is compiled first."""
    if program.language == "py":
        return [str(environment.python), "-c", program.text]
    source, output = folder / "report.cpp", folder / "report"
    source.write_text(program.text)
    subprocess.run([ADAPTERS / environment.name / "compile", environment.folder, source, output], check=True)
    return [str(output)]


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


def main() -> None:
    """Runs the adapters. The status is 1 if a difference has no explanation, or if a report and its program differ."""
    parser = argparse.ArgumentParser("scripts/verify adapters", description=__doc__)
    sizes = "sizes of cases to try, without writing results; default: the sizes on the page"
    parser.add_argument("--size", choices=[size.value for size in SuiteSize], action="append", help=sizes)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"some of {', '.join(NAMES)}; default: all")
    arguments = parser.parse_args()
    findings = [finding for name in arguments.names or NAMES for finding in check_library(name, arguments.size)]
    print(*findings, sep="\n")
    sys.exit(bool(findings))


def check_library(name: str, sizes: Sequence[str] | None) -> Iterator[str]:
    """Runs a library's implementations, and yields the differences that have no explanation."""
    environment, library = Environment(name), load_library(name)
    environment.prepare()
    for implementation in library.implementations:
        results = run(environment, implementation, sizes or implementation.sizes)
        for one in explain(library, list_differences(results)).get(None, []):
            yield f"{results.implementation}: not explained: {one.case}: {one.verdict}: {dict(one.answer)}"
        if sizes is None:
            kept = trim(results, partial(find_cause, library))
            (RESULTS / f"{kept.implementation}.json").write_text(format_results(kept), encoding="utf-8")
    for report in list_reports(library):
        yield from check(report, environment)


def run(environment: Environment, implementation: Implementation, sizes: Sequence[str]) -> Results:
    adapter = [environment.python, "-m", f"conformance.adapters.{environment.name}.adapter", implementation.name]
    size_arguments = [argument for size in sizes for argument in ("--size", size)]
    command = ["tensor-reshape", "conformance", "--json", "--command", shlex.join(map(str, adapter)), *size_arguments]
    # The status is 1 if there is a difference.
    return parse_results(subprocess.run(command, check=False, cwd=ROOT, stdout=subprocess.PIPE, text=True).stdout)


if __name__ == "__main__":
    main()
