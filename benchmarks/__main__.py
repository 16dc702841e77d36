"""Measures a suite, prints its report, and writes it to `--output`.

`python -m benchmarks --useful` measures the project's performance goals. `--into docs/benchmarks` writes the report,
and `--readme README.md` writes the README's table. `benchmarks/install-peers` installs the peers. `ab` compares two
versions of this project, and needs no peers. See docs/benchmarks/README.md.
"""

import argparse
import importlib
import os
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import ModuleType

from benchmarks.contestants import OWN
from benchmarks.environments import (
    PEERS,
    Environment,
    describe_machine,
    find_commit,
    find_environment,
    open_environment,
)
from benchmarks.rounds import Entry, Pace, measure_group
from benchmarks.suites.ab import BASE
from benchmarks.tables import RUNS, Table, write_summary

_USEFUL = "useful"
_SUITES = (_USEFUL, "ab")
_REPORT = "results.md"
_RUN_HEAD = ("begin, UTC", "commit", "rounds", "seconds each", "minutes", "load before")


def main() -> None:
    """Runs the suite, and writes the report after each group, so that an interrupted run keeps its measurements."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # SystemExit stops the servers
    # The modules are imported by name, because each suite has options, groups and tables of the same names.
    suites = {name: importlib.import_module(f"benchmarks.suites.{name}") for name in _SUITES}
    options = parse_arguments(suites)
    suite = suites[options.suite]
    pace: Pace = suite.PACE
    pace = replace(
        pace, rounds=options.rounds or pace.rounds, seconds=pace.seconds if options.seconds is None else options.seconds
    )
    groups = select_groups(suite.list_groups(options), options)
    environments = find_environments(groups, options)
    begin, commit, load = time.time(), describe_commit(environments), os.getloadavg()[0]
    report = ""
    for number, group in enumerate(groups, 1):
        measure_group(group, environments, pace)
        # The report is written again after each group, with the minutes so far.
        moment, minutes = time.strftime("%Y-%m-%d %H:%M", time.gmtime(begin)), (time.time() - begin) / 60
        run = (moment, commit, f"{pace.rounds}", f"{pace.seconds:g}", f"{minutes:.1f}", f"{load:.1f}")
        tables = [Table(RUNS, _RUN_HEAD, [run]), *suite.build_tables(groups[:number])]
        report = build_report(suite, environments, tables)
        if options.output:
            options.output.parent.mkdir(parents=True, exist_ok=True)
            options.output.write_text(report)
    if options.suite == _USEFUL and options.readme:
        write_summary(options.readme, report)
    print(report, end="")


def parse_arguments(suites: Mapping[str, ModuleType]) -> argparse.Namespace:
    """Reads the command line."""
    shared = argparse.ArgumentParser(add_help=False)
    shared.add_argument("--rounds", type=int)
    shared.add_argument("--seconds", type=float, help="duration of each measurement")
    shared.add_argument(
        "--only", nargs="+", metavar="NAME", help="contestants to measure, by their names in benchmarks/contestants.py"
    )
    shared.add_argument("--skip", nargs="+", metavar="NAME", default=[])
    shared.add_argument("--peers", type=Path, default=PEERS, help="folder that install-peers filled")
    shared.add_argument("--output", type=Path, metavar="FILE", help="the report")
    parser = argparse.ArgumentParser("python -m benchmarks", description=__doc__)
    choices = parser.add_subparsers(dest="suite", required=True, metavar="SUITE", help=", ".join(_SUITES))
    for name, suite in suites.items():
        suite.add_options(choices.add_parser(name, parents=[shared], description=suite.__doc__))
    options = parser.parse_args([_USEFUL if word == f"--{_USEFUL}" else word for word in sys.argv[1:]])
    if options.suite == _USEFUL and options.into:
        options.output = options.into / _REPORT
    return options


def select_groups(groups: Sequence[Sequence[Entry]], options: argparse.Namespace) -> list[list[Entry]]:
    """Returns the groups without the contestants that are not selected."""

    def is_wanted(name: str) -> bool:
        return name not in options.skip and (not options.only or name in options.only)

    wanted = [[entry for entry in group if is_wanted(entry.contestant.name)] for group in groups]
    return [group for group in wanted if group]


def find_environments(groups: Sequence[Sequence[Entry]], options: argparse.Namespace) -> dict[str, Environment]:
    """Returns the environments of the contestants; a contestant without one gets a status with the reason."""
    entries = [entry for group in groups for entry in group]
    found: dict[str, Environment] = {}
    # Only the needed environments are opened, because listing the packages of an interpreter takes a while.
    for name in dict.fromkeys(entry.contestant.environment for entry in entries):
        environment = _open_base(options.against) if name == BASE else find_environment(name, options.peers)
        if environment:
            found[name] = environment
    for entry in entries:
        if entry.contestant.environment not in found:
            entry.status = "not installed"
    return found


def describe_commit(environments: Mapping[str, Environment]) -> str:
    """Returns the measured version, and the version that it is compared with."""
    commit = find_commit(environments[OWN].python) if OWN in environments else "?"
    return f"{commit}, base {find_commit(environments[BASE].python)}" if BASE in environments else commit


def build_report(suite: ModuleType, environments: Mapping[str, Environment], tables: Sequence[Table]) -> str:
    """Returns the report."""
    title, _, introduction = (suite.__doc__ or "").partition("\n")
    versions = [f"{name}: {environment.versions}" for name, environment in environments.items()]
    machine = "\n".join(f"- {line}" for line in [*describe_machine(), *versions])
    repeat = "The page [Benchmarks](README.md) shows how to repeat the measurements."
    parts = [f"# {title.rstrip('.')}", introduction.strip(), repeat]
    return "\n\n".join([*parts, f"## The machine\n\n{machine}", *map(str, tables)]) + "\n"


def _open_base(against: str) -> Environment:
    # Not resolved, because the interpreter of an environment is a link to the system's.
    place = Path(against).absolute()
    environment = open_environment(str(place / ".venv" / "bin" / "python" if place.is_dir() else place))
    return environment or sys.exit(f"{against}: no environment in which this project is installed")


if __name__ == "__main__":
    main()
