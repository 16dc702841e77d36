"""The reports of defects. The smallest program on each page is run, and must print the output on the page.

- A program runs in its own process, in the environment of its library. A signal that ends it is printed.
"""

import os
import re
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from verification.adapters.environments import ADAPTERS, ROOT, Environment

FOLDER = ROOT / "docs/conformance/reports"
_PROGRAM = re.compile(r"^```(py|cpp)\n(.*?)^```$.*?^```text\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_TRAILING = re.compile(r" +$", re.MULTILINE)
_SECONDS = 120


class Program(NamedTuple):
    """The smallest program of a report.

    Attributes:
        language: "py" or "cpp".
        text: the source code.
        output: the expected output.
    """

    language: str
    text: str
    output: str


def read_programs(report: str) -> list[Program]:
    """Returns the programs of a report."""
    return [Program(*groups) for groups in _PROGRAM.findall((FOLDER / f"{report}.md").read_text())]


def read_title(report: str) -> str:
    """Returns the heading of a report."""
    return (FOLDER / f"{report}.md").read_text().partition("\n")[0].removeprefix("# ")


def check(report: str, environment: Environment) -> Iterator[str]:
    """Yields the differences between the printed output and the report."""
    for program in read_programs(report):
        printed = run(program, environment)
        if printed != program.output.strip():
            yield f"{report} prints\n{printed}\n  instead of\n{program.output.strip()}"


def run(program: Program, environment: Environment) -> str:
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
