"""Measures what the tests notice: changes random places of the code, one at a time, and runs the tests.

Each mutant is tried against the tests of its package first. If they pass, it is tried against `scripts/test`. A mutant
survives if it passes both. Your checkout is not changed, because the tests run in copies.

The score is the share of the mutants that the tests notice, with its 95 % interval for all mutants of the package.
`equivalent.jsonl` lists mutants that change no result. They are not tried and do not count.
"""

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from functools import partial
from math import sqrt
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from verification.mutants.changes import Mutant, draw_sample, find_mutants
from verification.mutants.runs import Copy, Outcome

ROOT = Path(__file__).parents[2]
EQUIVALENT = Path(__file__).with_name("equivalent.jsonl")

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
    """Runs the program. The status is 1 if `equivalent.jsonl` names a mutant that does not exist."""
    options = _parse_options()
    mutants = {name: [m for folder in PACKAGES[name] for m in find_mutants(ROOT, folder)] for name in options.package}
    reasons = {tuple(row["mutant"]): row["reason"] for row in _read_rows(EQUIVALENT)}
    samples = {name: draw_sample(own, options.sample, options.seed) for name, own in mutants.items()}
    trials = [Trial(name, m) for name, own in samples.items() for m in own if m.lasting_name not in reasons]
    _restore(trials, options.results)
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
    parser.add_argument(
        "--own", action="store_true", help="do not run scripts/test, which takes minutes for a survivor"
    )
    parser.add_argument("--copies", type=int, default=os.cpu_count(), help="copies (default: one for each core)")
    parser.add_argument("--results", type=Path, help="file for the outcomes, with which an interrupted run continues")
    options = parser.parse_args()
    options.package = options.package or [*PACKAGES]
    return options


def _read_rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def _restore(trials: Iterable[Trial], results: Path | None) -> None:
    """Gives the trials the outcomes of earlier runs."""
    rows = _read_rows(results) if results and results.exists() else []
    known = {Mutant(*row["mutant"]): row for row in rows}
    for trial in trials:
        row = known.get(trial.mutant, {})
        trial.own, trial.all, trial.failed = (row.get(name, "") for name in ("own", "all", "failed"))


def _try_all(trials: list[Trial], folder: Path, options: argparse.Namespace) -> None:
    """Tries each mutant against its tests, several at a time, and then survivors against all tests."""
    copies: SimpleQueue[Copy] = SimpleQueue()
    for index in range(options.copies):
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
        _record(trial, outcome, options.results)

    for name in options.package:
        waiting = [trial for trial in trials if trial.package == name and not trial.own]
        if waiting:
            limit = _measure(copies, _own_tests(name))
            with ThreadPoolExecutor(options.copies) as pool:
                [*pool.map(partial(try_own, limit=limit), waiting)]
    survivors = [trial for trial in trials if trial.own == "passed" and not trial.all]
    if survivors and not options.own:
        limit = _measure(copies, _ALL_TESTS)
        for trial in survivors:
            outcome = try_one(trial, _ALL_TESTS, limit)
            trial.all = outcome.result
            _record(trial, outcome, options.results)


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


def _record(trial: Trial, outcome: Outcome, results: Path | None) -> None:
    print(f"{outcome.result:8} {outcome.seconds:4.0f} s  {trial.mutant.name}  {trial.failed[:150]}", flush=True)
    if results:
        with results.open("a") as file:
            file.write(json.dumps(asdict(trial)) + "\n")


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
    """Prints entries of `equivalent.jsonl` for the packages that match no mutant."""
    known = {mutant.lasting_name for own in mutants.values() for mutant in own}
    folders = tuple(folder + "/" for name in mutants for folder in PACKAGES[name])
    stale = [name for name in reasons if name[0].startswith(folders) and name not in known]
    for name in stale:
        print(f"equivalent.jsonl names a mutant that does not exist: {list(name)}", file=sys.stderr)
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
