"""Measures what the tests notice: changes random places of the code, one at a time, and runs the tests.

Each mutant is tried against the tests of its package first. If they pass, it is tried against `scripts/test`. A mutant
survives if it passes both. Your checkout is not changed, because the tests run in copies.

The score is the share of the mutants that the tests notice, with its 95 % interval for all mutants of the package.
`equivalent_mutants.jsonl` lists mutants that change no result. They are not tried and do not count.

A mutant replaces one expression or statement. Annotations, decorators, docstrings, imports, f-strings (Python 3.11 has
no positions in them), `__all__`, `__slots__` and `if TYPE_CHECKING` are not changed. Text is not changed either,
because most of it is the words of an error.
"""

import argparse
import ast
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from math import sqrt
from pathlib import Path
from queue import SimpleQueue
from typing import NamedTuple

_COMPARE = {"Lt": "LtE", "Gt": "GtE", "Eq": "NotEq", "Is": "IsNot", "In": "NotIn"}
_COMPARE |= {new: old for old, new in _COMPARE.items()}
_ARITHMETIC = {
    "Add": "Sub", "Sub": "Add", "Mult": "Add", "FloorDiv": "Mult", "Div": "Mult", "Mod": "FloorDiv", "Pow": "Mult",
    "BitAnd": "BitOr", "BitOr": "BitAnd", "LShift": "RShift", "RShift": "LShift",
}  # fmt: skip
_BUILTIN = {"min": "max", "max": "min", "any": "all", "all": "any"}
_ORDERLESS = {"isinstance", "cast", "min", "max", "gcd", "suppress"}  # other arguments, or an order without effect

Replacement = tuple[str, ast.AST, str]
"""The kind of a change, the node that it replaces, and the new source of the node."""


class Mutant(NamedTuple):
    """A change of a file: the bytes from `start` to `end` become `new`."""

    file: str
    line: int
    column: int
    kind: str
    start: int
    end: int
    old: str
    new: str
    source_line: str
    function: str

    @property
    def name(self) -> str:
        """Identifies the mutant in one state of the code."""
        return f"{self.file}:{self.line}:{self.column}:{self.kind}"

    @property
    def lasting_name(self) -> tuple[str, str, str, str, str]:
        """Identifies the mutant for as long as its line has the same text and is in a function of the same name."""
        return self.file, self.function, self.source_line, self.old, self.new

    def apply(self, source: bytes) -> bytes:
        return source[: self.start] + self.new.encode() + source[self.end :]


def find_mutants(root: Path, folder: str) -> list[Mutant]:
    modules = sorted((root / folder).rglob("*.py"))
    if not modules:
        raise FileNotFoundError(root / folder)
    return [mutant for path in modules for mutant in _find_in_module(root, path)]


def draw_sample(mutants: Iterable[Mutant], count: int, seed: int) -> list[Mutant]:
    """Returns at most `count` random mutants, and at most one of each line."""
    shuffled = list(mutants)
    random.Random(seed).shuffle(shuffled)
    lines: dict[tuple[str, int], Mutant] = {}
    for mutant in shuffled:
        lines.setdefault((mutant.file, mutant.line), mutant)
    return list(lines.values())[:count]


def _find_in_module(root: Path, path: Path) -> Iterator[Mutant]:
    source = path.read_bytes()
    lines = source.splitlines(keepends=True)
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line))
    found: set[tuple[int, int, str]] = set()
    tree = ast.parse(source)
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    for node in _walk(tree):
        for kind, part, new in _replace(node):
            start, end = starts[part.lineno - 1] + part.col_offset, starts[part.end_lineno - 1] + part.end_col_offset  # type: ignore[attr-defined]
            old = source[start:end].decode()
            line, column = part.lineno, part.col_offset  # type: ignore[attr-defined]
            text = lines[line - 1].decode().strip()
            around = [one for one in functions if one.lineno <= line <= (one.end_lineno or 0)]
            function = max(around, key=lambda one: one.lineno).name if around else ""
            mutant = Mutant(str(path.relative_to(root)), line, column, kind, start, end, old, new, text, function)
            if new != old and (start, end, new) not in found:
                found.add((start, end, new))
                yield mutant


def _walk(node: ast.AST) -> Iterator[ast.AST]:
    yield node
    match node:
        case ast.JoinedStr() | ast.Import() | ast.ImportFrom() | ast.AnnAssign(annotation=ast.Name(id="TypeAlias")):
            return
        case ast.keyword(arg="strict"):  # `zip` only checks
            return
        case ast.If(test=ast.Name(id="TYPE_CHECKING")) | ast.Assign(targets=[ast.Name(id="__all__" | "__slots__")]):
            return
    for name, value in ast.iter_fields(node):
        if name not in {"annotation", "returns", "decorator_list"}:
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST) and not _is_docstring(child):
                    yield from _walk(child)


def _is_docstring(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _replace(node: ast.AST) -> Iterator[Replacement]:
    for replace in (_replace_operator, _replace_value, _replace_call, _replace_statement, _replace_condition):
        yield from replace(node)


def _copy(node: ast.AST, **fields: object) -> str:
    return ast.unparse(type(node)(**{**{name: getattr(node, name) for name in node._fields}, **fields}))


def _replace_operator(node: ast.AST) -> Iterator[Replacement]:
    match node:
        case ast.Compare(ops=[op, *rest]):
            yield "compare", node, f"({_copy(node, ops=[getattr(ast, _COMPARE[type(op).__name__])(), *rest])})"
        case ast.BinOp(op=op) if type(op).__name__ in _ARITHMETIC:
            yield "arithmetic", node, f"({_copy(node, op=getattr(ast, _ARITHMETIC[type(op).__name__])())})"
        case ast.AugAssign(op=op) if type(op).__name__ in _ARITHMETIC:
            yield "arithmetic", node, _copy(node, op=getattr(ast, _ARITHMETIC[type(op).__name__])())
        case ast.BoolOp(op=op):
            yield "boolean", node, f"({_copy(node, op=ast.Or() if isinstance(op, ast.And) else ast.And())})"
        case ast.UnaryOp(op=ast.Not()):
            yield "boolean", node, f"({ast.unparse(node.operand)})"


def _replace_value(node: ast.AST) -> Iterator[Replacement]:
    match node:
        case ast.Constant(value=bool()):
            yield "boolean", node, str(not node.value)
        case ast.Constant(value=int() as number):
            yield "number", node, str(number + 1)


def _replace_call(node: ast.AST) -> Iterator[Replacement]:
    if not isinstance(node, ast.Call):
        return
    if isinstance(node.func, ast.Name) and node.func.id in _BUILTIN:
        yield "builtin", node.func, _BUILTIN[node.func.id]
    match node.args:
        case [first, second, *rest] if not any(isinstance(arg, ast.Starred) for arg in node.args):
            if ast.unparse(first) != ast.unparse(second) and ast.unparse(node.func) not in _ORDERLESS:
                yield "swapped", node, _copy(node, args=[second, first, *rest])
    for keyword in node.keywords:
        if keyword.arg not in {None, "strict"}:
            yield "keyword", node, _copy(node, keywords=[other for other in node.keywords if other is not keyword])


def _replace_statement(node: ast.AST) -> Iterator[Replacement]:
    match node:
        case ast.Return(value=ast.Compare() | ast.BoolOp() as value):
            yield "returned", node, f"return not ({ast.unparse(value)})"
        case ast.Return(value=ast.expr() as value) if not (isinstance(value, ast.Constant) and value.value is None):
            yield "returned", node, "return None"
        case ast.Expr(value=ast.Call() | ast.Await() | ast.YieldFrom()) | ast.Raise() | ast.Break() | ast.Continue():
            yield "removed", node, "pass"
        case ast.Assign(targets=[ast.Attribute() | ast.Subscript()]) | ast.Delete():
            yield "removed", node, "pass"


def _replace_condition(node: ast.AST) -> Iterator[Replacement]:
    match node:
        case ast.If(test=test) | ast.IfExp(test=test):
            yield "condition", test, "True"
            yield "condition", test, "False"
        case ast.comprehension(ifs=tests):
            yield from (("condition", test, "True") for test in tests)


_FIRST_KILLED = "echo 1000 >/proc/self/oom_score_adj"  # a change may remove a limit of memory
_SETTLED = 1_000_000_000  # seconds since 1970, an old time from which the changed files count


class Outcome(NamedTuple):
    """What tests did: `passed`, `failed`, `broken` (no test was run) or `too long`, and the first failed test."""

    result: str
    seconds: float
    failed: str


class Copy:
    """A copy of the checkout with its own environment, in which one mutant is tried at a time."""

    def __init__(self, checkout: Path, folder: Path) -> None:
        """Copies the files of a checkout, uncommitted ones included, and installs them."""
        self.folder = folder
        self._dates = _SETTLED
        subprocess.run(["git", "clone", "--quiet", "--shared", checkout, folder], check=True)
        listing = ["git", "ls-files", "-z", "--modified", "--others", "--exclude-standard"]
        listed = subprocess.run(listing, cwd=checkout, stdout=subprocess.PIPE, check=True).stdout.decode()
        for name in filter(None, listed.split("\0")):
            if (checkout / name).is_file():
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                (folder / name).write_bytes((checkout / name).read_bytes())
            else:  # deleted
                (folder / name).unlink(missing_ok=True)
        subprocess.run(
            ["scripts/test", "--collect-only"], cwd=folder, env=_environment(), stdout=subprocess.DEVNULL, check=True
        )

    def try_mutant(self, mutant: Mutant, command: Sequence[str], limit: float) -> Outcome:
        """Runs tests with a mutant, for at most `limit` seconds."""
        path = self.folder / mutant.file
        source = path.read_bytes()
        try:
            self._write(path, mutant.apply(source))
            return self.run(command, limit)
        finally:
            self._write(path, source)

    def _write(self, path: Path, source: bytes) -> None:
        """Writes a module with a new time, because Python finds outdated bytecode by the time and size of a module."""
        self._dates += 1
        path.write_bytes(source)
        os.utime(path, (self._dates, self._dates))

    def run(self, command: Sequence[str], limit: float) -> Outcome:
        """Runs pytest until the first failure. Hypothesis has the same seed in each run, and no examples of others."""
        began = time.monotonic()
        with tempfile.TemporaryDirectory() as examples, tempfile.TemporaryFile("w+", errors="replace") as output:
            process = subprocess.Popen(
                ["sh", "-c", f'{_FIRST_KILLED}; exec "$@"', "sh", *command],
                cwd=self.folder,
                env=_environment() | {"HYPOTHESIS_STORAGE_DIRECTORY": examples},
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            try:
                status = process.wait(limit)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                status = process.wait()
            output.seek(0)
            lines = output.read().splitlines()
        failed = next((line for line in lines if line.startswith(("FAILED tests/", "ERROR tests/"))), "")
        return Outcome(_name_result(status, failed), time.monotonic() - began, failed or "".join(lines[-1:]))


def _environment() -> dict[str, str]:
    """The environment without this program's own packages. The Python of the machine makes the one of the copy."""
    kept = {name: value for name, value in os.environ.items() if name not in {"VENV", "VIRTUAL_ENV", "PYTHONPATH"}}
    return kept | {"PYTHON": f"{sys.base_prefix}/bin/python3"}


def _name_result(status: int, failed: str) -> str:
    if status == 0:
        return "passed"
    if status == -signal.SIGKILL:
        return "too long"
    return "failed" if "::" in failed else "broken"


ROOT = Path(__file__).parents[1]
EQUIVALENT = Path(__file__).with_name("equivalent_mutants.jsonl")

PACKAGES = {
    "rules": ("core/tensor_reshape/rules",),
    "wire": ("core/tensor_reshape/wire",),
    "engine": ("server/tensor_reshape/server/engine",),
    "grpc": ("server/tensor_reshape/server/grpc",),
    "service": ("server/tensor_reshape/server/service",),
    "client": ("client/tensor_reshape/client",),
    "onnx": ("tools/tensor_reshape/onnx",),
}
"""The folders of each package. `tests/` mirrors them."""

_OPTIONS = ("-x", "-q", "-p", "no:cacheprovider", "--hypothesis-seed=0", "--timeout=60")
_ALL_TESTS = ["scripts/test", *_OPTIONS]


@dataclass
class Trial:
    """A mutant, and the outcomes of the tests of its package and of all tests, which are empty until it is tried."""

    package: str
    mutant: Mutant
    own: str = ""
    all: str = ""
    failed: str = ""

    @property
    def survived(self) -> bool:
        """Whether tests ran and none failed so far."""
        return self.own == "passed" and self.all in {"", "passed"}


def main() -> int:
    """Runs the program. The status is 1 if `equivalent_mutants.jsonl` names a mutant that does not exist."""
    options = _parse_options()
    mutants = {name: [m for folder in PACKAGES[name] for m in find_mutants(ROOT, folder)] for name in options.package}
    reasons = {tuple(json.loads(line)["mutant"]) for line in EQUIVALENT.read_text().splitlines()}
    samples = {name: draw_sample(own, options.sample, options.seed) for name, own in mutants.items()}
    trials = [Trial(name, m) for name, own in samples.items() for m in own if m.lasting_name not in reasons]
    if options.list:
        for trial in trials:
            print(f"{trial.mutant.name}  {trial.mutant.old!r} -> {trial.mutant.new!r}")
    else:
        with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
            _try_all(trials, Path(folder), options)
        _print_survivors(trials)
        for name, own in samples.items():
            print(_describe(name, len(own), len(mutants[name]), [trial for trial in trials if trial.package == name]))
    return _report_stale(mutants, reasons)


def _parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        "scripts/verify mutants", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sample", type=int, default=30, help="mutants of each package (default: 30)")
    parser.add_argument("--seed", type=int, default=1, help="seed of the sample (default: 1)")
    parser.add_argument("--package", action="append", choices=PACKAGES, help="package, by default all; may be repeated")
    parser.add_argument("--list", action="store_true", help="print the sample, and try nothing")
    quick = "do not run scripts/test, which takes minutes for a survivor"
    parser.add_argument("--own", action="store_true", help=quick)
    options = parser.parse_args()
    options.package = options.package or [*PACKAGES]
    return options


def _try_all(trials: list[Trial], folder: Path, options: argparse.Namespace) -> None:
    """Tries each mutant against its tests, several at a time, and then survivors against all tests."""
    copies: SimpleQueue[Copy] = SimpleQueue()
    count = os.cpu_count() or 1
    for index in range(count):
        copies.put(Copy(ROOT, folder / str(index)))

    def try_one(trial: Trial, command: Sequence[str], limit: float) -> Outcome:
        copy = copies.get()
        try:
            outcome = copy.try_mutant(trial.mutant, command, limit)
        finally:
            copies.put(copy)
        trial.failed = outcome.failed
        return outcome

    def try_own(trial: Trial, limit: float) -> None:
        outcome = try_one(trial, _own_tests(trial.package), limit)
        trial.own = outcome.result
        _print(trial, outcome)

    for name in options.package:
        waiting = [trial for trial in trials if trial.package == name and not trial.own]
        if waiting:
            limit = _measure(copies, _own_tests(name))
            with ThreadPoolExecutor(count) as pool:
                [*pool.map(partial(try_own, limit=limit), waiting)]
    survivors = [trial for trial in trials if trial.own == "passed" and not trial.all]
    if survivors and not options.own:
        limit = _measure(copies, _ALL_TESTS)
        for trial in survivors:
            outcome = try_one(trial, _ALL_TESTS, limit)
            trial.all = outcome.result
            _print(trial, outcome)


def _own_tests(package: str) -> list[str]:
    folders = [str(Path("tests", *Path(folder).parts[2:])) for folder in PACKAGES[package]]
    return [".venv/bin/python", "-m", "pytest", *_OPTIONS, *folders]


def _measure(copies: SimpleQueue[Copy], command: Sequence[str]) -> float:
    """Runs tests without a change; returns a limit of seconds for the same tests with a mutant."""
    copy = copies.get()
    outcome = copy.run(command, 1800)
    copies.put(copy)
    if outcome.result != "passed":
        sys.exit(f"the tests fail without a change: {outcome.failed}")
    return 60 + 5 * outcome.seconds


def _print(trial: Trial, outcome: Outcome) -> None:
    print(f"{outcome.result:8} {outcome.seconds:4.0f} s  {trial.mutant.name}  {trial.failed[:150]}", flush=True)


def _print_survivors(trials: Iterable[Trial]) -> None:
    for trial in trials:
        if trial.survived:
            mutant = trial.mutant
            print(f"\n{mutant.file}:{mutant.line}: {mutant.kind}\n    {mutant.source_line}")
            print("\n".join([*(f"  - {line}" for line in mutant.old.splitlines()), f"  + {mutant.new}"]))
    print()


def _describe(name: str, sampled: int, total: int, trials: Sequence[Trial]) -> str:
    by_own = sum(trial.own not in {"", "passed"} for trial in trials)
    by_all = sum(trial.all not in {"", "passed"} for trial in trials)
    untried = sum(trial.own == "passed" and not trial.all for trial in trials)
    return (
        f"{name}: {sampled} of {total} mutants, {sampled - len(trials)} equivalent; "
        f"own tests noticed {_score(by_own, len(trials))}; "
        f"with all tests {_score(by_own + by_all, len(trials))}, {untried} not tried against all"
    )


def _score(noticed: int, count: int) -> str:
    """Writes a share with its 95 % interval (Wilson's)."""
    if not count:
        return "0 of 0"
    share, z = noticed / count, 1.96
    middle, spread = share + z * z / (2 * count), z * sqrt(share * (1 - share) / count + (z / (2 * count)) ** 2)
    low, high = ((middle + sign * spread) / (1 + z * z / count) for sign in (-1, 1))
    return f"{noticed} of {count} = {share:.0%} ({low:.0%} to {high:.0%})"


def _report_stale(mutants: dict[str, list[Mutant]], reasons: Iterable[tuple[str, ...]]) -> int:
    """Prints entries of `equivalent_mutants.jsonl` for the packages that match no mutant."""
    known = {mutant.lasting_name for own in mutants.values() for mutant in own}
    folders = tuple(folder + "/" for name in mutants for folder in PACKAGES[name])
    stale = [name for name in reasons if name[0].startswith(folders) and name not in known]
    for name in stale:
        print(f"equivalent_mutants.jsonl names a mutant that does not exist: {list(name)}", file=sys.stderr)
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
