"""Installs the wheels in empty environments, as their users do, and uses each extra outside the repository.

Each case has a Python, extras, and the newest dependencies or the oldest that have a wheel for this Python. It runs the
quick start, and calls a server of the repository if it has none. A command without its extra must print a command that
installs the extra. With a neighbour, pip installs another project before or after this one. If the server then needs
another release, its error must name the command.

Pythons are those on the PATH, those of pyenv, and those that uv has or can download. A Python or a wheel that is not
available is named, and the other cases run.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Sequence
from contextlib import AbstractContextManager
from functools import cache
from importlib.metadata import Distribution, distributions
from pathlib import Path
from typing import NamedTuple

from packaging.requirements import Requirement

from documents import ADDRESS, read_blocks, run_console
from http_calls import ANSWER, INFER_PATH, QUESTION, find_http, post
from server_processes import ServerProcess, run_server

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
EXTRAS = tuple(PROJECT["project"]["optional-dependencies"])
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
AGES = ("newest", "oldest")
CLIENT = "client"  # no extra
ALL = "all"  # the extras of a complete installation
_COMPLETE = ("server", "http", "onnx", "tracing")
(_TORCH,) = (one for one in PROJECT["dependency-groups"]["frameworks"] if one.startswith("torch"))
NEIGHBOURS = {
    "tritonclient": ("tritonclient[grpc]", "grpcio-status"),
    "kserve": ("kserve",),
    "opentelemetry": ("opentelemetry-distro", "opentelemetry-instrumentation-grpc", "opentelemetry-exporter-otlp"),
    "torch": (_TORCH,),
}
ORDERS = ("before", "after")
COMMANDS = {
    "server": "serve --check-config --listen 127.0.0.1:0",
    "http": "http --listen 127.0.0.1:0",
    "onnx": "check model.onnx",
}
"""Commands that need an extra."""
_SHOWN = ("grpcio", "protobuf", "numpy")
_QUICK_START, _TUTORIAL, _TESTING = (
    ROOT / "docs" / page for page in ("quick-start.md", "start/tutorial.md", "how-to/testing.md")
)
_UV = (sys.executable, "-m", "uv")
_TRACED = "import sys; from tensor_reshape.client import Client; Client(sys.argv[1], tracing=True).close()"
_IMPORTS = {"examples": "import h11, sklearn, starlette, uvicorn", "ray": "import ray.serve"}


class Unavailable(Exception):  # noqa: N818 - it is no error of the project
    """A Python or a package that cannot be had here."""


class Case(NamedTuple):
    python: str  # its version, or the path of an interpreter
    install: str  # an extra, CLIENT or ALL
    age: str  # of the dependencies
    neighbour: str = ""  # another project in the same environment
    order: str = ""  # whether pip installs the neighbour before or after this project

    @property
    def extras(self) -> tuple[str, ...]:
        """The extras that are named in the installation."""
        return {CLIENT: (), ALL: _COMPLETE}.get(self.install, (self.install,))


def plan(pythons: Sequence[str], installs: Sequence[str], ages: Sequence[str], neighbours: Sequence[str]) -> list[Case]:
    """Returns the cases.

    Each installation is tried with the newest and the oldest dependencies. Then the complete installation is tried in
    one environment with each neighbour.
    """
    alone = [Case(python, install, age) for python in pythons for install in installs for age in ages]
    pairs = [(neighbour, order) for neighbour in neighbours for order in ORDERS]
    return alone + [Case(python, ALL, "newest", *pair) for python in pythons for pair in pairs]


def read_requirements(wheel: Distribution, extras: Sequence[str]) -> list[str]:
    """Returns the requirements of a wheel with extras, also of extras that an extra includes."""
    found, waiting = list[str](), ["", *extras]
    for extra in waiting:  # it grows
        for one in map(Requirement, wheel.requires or ()):
            if one.marker.evaluate({"extra": extra}) if one.marker else not extra:
                one.marker = None
                waiting.extend(one.extras - {*waiting} if one.name == wheel.name else ())
                found.extend([str(one)] if one.name != wheel.name else ())
    return found


@cache
def find_python(version: str) -> str:
    """Returns an interpreter of this machine, or of uv; pyenv's commands fail if pyenv has not selected the version."""
    folder = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    found = map(str, sorted(folder.glob(f"versions/{version}.*/bin/python")))
    for python in (version, f"python{version}", *found):
        if shutil.which(python) and not subprocess.run([python, "-c", ""], capture_output=True, check=False).returncode:
            return python
    done = subprocess.run([*_UV, "python", "install", version], capture_output=True, text=True, check=False)
    if done.returncode:
        raise Unavailable(f"this machine has no Python {version}, and uv cannot download it")
    return subprocess.check_output([*_UV, "python", "find", "--managed-python", version], text=True).strip()


class Installation:
    """An environment outside the repository."""

    def __init__(self, case: Case, wheel: Path, folder: Path) -> None:
        """Makes the environment with the packages of the case."""
        self.case, self.folder, self.python = case, folder, folder / "bin/python"
        inherited = {name: value for name, value in os.environ.items() if name not in {"PYTHONPATH", "VIRTUAL_ENV"}}
        self.env = {**inherited, "PATH": f"{folder / 'bin'}:{os.environ['PATH']}"}
        self.advice = list[str]()  # the commands that errors named, and that were run
        self._run(*_UV, "venv", "--quiet", "--python", find_python(case.python), folder)
        self._uv("pip")  # only pip, because `venv --seed` may also install packages that a requirement forgot
        own = f"{wheel}[{','.join(case.extras)}]" if case.extras else str(wheel)
        if case.neighbour:
            packages = [[own], list(NEIGHBOURS[case.neighbour])]
            for one in packages if case.order == "after" else reversed(packages):
                self._pip(*one)
        elif case.age == "newest":
            self._uv(own)
        else:
            (described,) = distributions(path=[str(wheel)])
            self._uv("--resolution", "lowest-direct", own, *read_requirements(described, case.extras))

    def _uv(self, *packages: str) -> None:
        self._install(*_UV, "pip", "install", "--quiet", "--python", self.python, "--only-binary", ":all:", *packages)

    def _install(self, *command: str | Path) -> str:
        done = self._run(*command, check=False)
        if done.returncode:
            *_, reason = done.stderr.strip().splitlines()
            raise Unavailable(f"not installable: {reason.strip()}")
        return done.stdout

    def _pip(self, *packages: str) -> None:
        """Installs packages with pip, unless it would also install gigabytes of CUDA."""
        pip = [str(self.python), "-m", "pip", "install", "--quiet", "--only-binary", ":all:", *packages]
        plan = self._install(*pip, "--dry-run", "--report", "-") if self.case.neighbour == "torch" else ""
        if re.search('"name": "(nvidia|cuda)', plan):
            raise Unavailable(f"no {packages[0]} for the CPU only")
        self._install(*pip)

    def _run(self, *command: str | Path, check: bool = True) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command, env=self.env, cwd=self.folder.parent, capture_output=True, text=True, check=check, timeout=900
        )

    def list_versions(self) -> str:
        """Returns the releases of the most important packages."""
        program = f"from importlib.metadata import version; print(*map(version, {_SHOWN}))"
        return ", ".join(self._run(self.python, "-I", "-c", program).stdout.split())

    def use(self) -> None:
        """Uses what the case has; an exception is a failure."""
        where = self._run(self.python, "-c", "import tensor_reshape.client as c; print(c.__file__)").stdout
        assert Path(where.strip()).is_relative_to(self.folder), where
        (self.folder.parent / "model.onnx").touch()
        features = {*self.case.extras, *(["server"] if {"http", "testing"} & {*self.case.extras} else [])}
        present = features | {"http"} if self.case.install == "ray" else features  # Ray has the packages of `http`
        for extra in [one for one in COMMANDS if one not in present]:
            self._follow_advice(extra)
        if self.case.install == CLIENT:
            features |= COMMANDS.keys()  # the advice has installed them
        with self._start(features) as server:
            self._follow_pages(server, features)
            if "http" in features:
                assert post(find_http(server), QUESTION, INFER_PATH).document == ANSWER
            if "tracing" in features:
                self._run(self.python, "-c", _TRACED, server.address)
        for extra in _IMPORTS.keys() & features:
            self._run(self.python, "-c", _IMPORTS[extra])

    def _follow_advice(self, extra: str) -> None:
        """Runs a command without its extra, and, in the environment of a client, the command in its error."""
        program, *flags = COMMANDS[extra].split()
        done = self._run(self.folder / "bin/tensor-reshape", program, *flags, check=False)
        (advice,) = re.findall(r"pip install .*", done.stderr)
        assert (done.returncode, len(done.stderr.splitlines())) == (1, 1), done.stderr
        if self.case.install == CLIENT:
            self._shell(advice)

    def _shell(self, command: str) -> None:
        subprocess.run(command, shell=True, env=self.env, cwd=self.folder.parent, capture_output=True, check=True)
        self.advice.append(command)

    def _start(self, features: set[str]) -> AbstractContextManager[ServerProcess]:
        """Starts a server of this environment if it has one, and otherwise one of the repository."""
        if "server" not in features:
            return run_server()
        done = self._run(self.folder / "bin/tensor-reshape", *COMMANDS["server"].split(), check=False)
        if done.returncode:
            (advice,) = re.findall(r"pip install .*", done.stderr) or [f"false: {done.stderr}"]
            self._shell(advice)
        flags = {"http": ("--http-listen", "127.0.0.1:0"), "tracing": ("--tracing",)}
        chosen = [flag for feature in features & flags.keys() for flag in flags[feature]]
        return run_server(*chosen, python=self.python, env={**self.env, "OTEL_TRACES_EXPORTER": "none"})

    def _follow_pages(self, server: ServerProcess, features: set[str]) -> None:
        """Runs the sessions and the Python code of the quick start, and of the pages of extras."""
        folder = self.folder.parent / "pages"
        folder.mkdir()
        env = {**self.env, "TENSOR_RESHAPE_SERVER": server.address}
        for page in (_QUICK_START, *([_TUTORIAL] if "onnx" in features and self.case.install != ALL else [])):
            shown, printed = run_console(page, folder, env)
            assert printed == shown, printed
        for block in read_blocks(_QUICK_START):
            if block.language == "python":
                self._run(self.python, "-I", "-c", block.text.replace(ADDRESS, server.address))
        if "testing" in features:
            (folder / "test_page.py").write_text(read_blocks(_TESTING)[0].text)
            self._run(self.python, "-m", "pytest", "-q", folder / "test_page.py")


def try_case(case: Case, wheel: Path) -> tuple[str, bool]:
    """Returns a line of the table, and whether the case failed."""
    start = time.monotonic()
    versions, failed = "", False
    with tempfile.TemporaryDirectory(prefix="tensor-reshape-install-") as folder:
        try:
            installation = Installation(case, wheel, Path(folder, "environment"))
            versions = installation.list_versions()
            installation.use()
            result = " ".join(["works", *(f"after `{one}`" for one in installation.advice if case.neighbour)])
        except Unavailable as error:
            result = f"not tried: {error}"
        except (AssertionError, OSError, RuntimeError, ValueError, subprocess.SubprocessError) as error:
            streams = [getattr(error, name, None) or "" for name in ("stdout", "stderr")]
            text = " ".join(f"{error} {' '.join(map(str, streams))}".split())
            result, failed = f"failed: {text[-1000:]}", True
    cells = [case.python, case.install, case.age, f"{case.neighbour} {case.order}".strip(), versions, result]
    return f"| {' | '.join(cells)} | {time.monotonic() - start:.0f} s |", failed


def main() -> int:
    """Builds the wheels, and tries each case. The status is 1 if one fails."""
    parser = argparse.ArgumentParser("scripts/verify installs", description=__doc__)
    parser.add_argument("--python", nargs="+", default=PYTHONS, help="versions, or paths of interpreters")
    parser.add_argument("--extra", nargs="+", choices=(CLIENT, *EXTRAS, ALL), help="installations")
    parser.add_argument("--age", nargs="+", choices=AGES, default=AGES, help="ages of the dependencies")
    parser.add_argument("--neighbour", nargs="+", choices=NEIGHBOURS, help="projects in the same environment")
    chosen = parser.parse_args()
    everything = chosen.extra is None and chosen.neighbour is None
    installs = (CLIENT, *EXTRAS, ALL) if everything else chosen.extra or ()
    cases = plan(chosen.python, installs, chosen.age, [*NEIGHBOURS] if everything else chosen.neighbour or ())
    failures = 0
    with tempfile.TemporaryDirectory(prefix="tensor-reshape-wheels-") as folder:
        for source in (ROOT, ROOT / "protos"):
            subprocess.run([*_UV, "build", "--quiet", "--out-dir", folder, source], check=True)
        for path in sorted(Path(folder).glob("tensor*")):
            print(f"{path.name}: {path.stat().st_size:,} bytes")
        (wheel,) = Path(folder).glob("tensor_reshape-*.whl")
        os.chdir(folder)  # outside the repository
        print(f"| Python | extra | dependencies | neighbour | {', '.join(_SHOWN)} | result | time |\n|{'---|' * 7}")
        for case in cases:
            line, failed = try_case(case, wheel)
            failures += failed
            print(line, flush=True)
    print(f"{len(cases)} cases, {failures} failed")
    return 1 if failures or not cases else 0


if __name__ == "__main__":
    sys.exit(main())
