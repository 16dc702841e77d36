"""The reports of defects: pages whose smallest program is run, and has to print what the page says.

- A program is run in the environment of its library, in a process of its own: a signal that ends it is printed as one.
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
        text: itself.
        output: what it prints.
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
    """Yields what the programs of a report print otherwise than it says."""
    for program in read_programs(report):
        printed = run(program, environment)
        if printed != program.output.strip():
            yield f"{report} prints\n{printed}\n  instead of\n{program.output.strip()}"


def run(program: Program, environment: Environment) -> str:
    """Returns what a program prints, and the signal that ends it."""
    with tempfile.TemporaryDirectory() as folder:
        ended = subprocess.run(
            _prepare(program, environment, Path(folder)),
            check=False,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            timeout=_SECONDS,
            cwd=folder,
            # The runtime without which oneDNN finds no processor: conformance/adapters/onednn/adapter.py.
            env={**os.environ, "OCL_ICD_FILENAMES": str(environment.folder / "lib/libintelocl.so")},
        )
    end = signal.Signals(-ended.returncode).name if ended.returncode < 0 else ""
    return _TRAILING.sub("", f"{ended.stdout}{end}").strip()


def _prepare(program: Program, environment: Environment, folder: Path) -> list[str]:
    """Returns the command that runs a program, which is compiled where it has to be."""
    if program.language == "py":
        return [str(environment.python), "-c", program.text]
    source, output = folder / "report.cpp", folder / "report"
    source.write_text(program.text)
    subprocess.run([ADAPTERS / environment.name / "compile", environment.folder, source, output], check=True)
    return [str(output)]
