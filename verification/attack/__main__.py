"""Attacks servers in every way that is known, and says what polite clients saw meanwhile.

They attack servers of each way of serving, with one worker and with two; then there are connections of
random frames. `--into` keeps what was seen in docs/attacks, where the table is.

The servers listen on loopback, but read connections as those do that strangers can reach: by the event engine.
TENSOR_RESHAPE_ENGINE=polling in the environment shows what strangers on the same machine can do.
"""

import argparse
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import NamedTuple

from attack_runs import Row, find_misses, run_attacks
from attackers.attacks import ATTACKS, Attack
from frame_runs import run_random_frames
from verification.attack.tables import AFTER, BEFORE, keep, write_table

ROOT = Path(__file__).parents[2]
_SERVINGS = ("inline", "threads")


class Part(NamedTuple):
    """A program that is run besides."""

    name: str
    module: str
    arguments: tuple[str, ...]


PARTS = (
    Part("fuzz", "verification.fuzz", ("4000000",)),
    Part("prove", "verification.prove", ("1000000",)),
    Part("restarts", "verification.restarts", ("--seconds", "60", "--only", "lone", "workers")),
)


def parse_arguments() -> argparse.Namespace:
    """Reads the command line."""
    parser = argparse.ArgumentParser("scripts/attack", description=__doc__)
    parser.add_argument("--only", nargs="*", metavar="NAME", help="attacks, or kinds of them, and no random frames")
    parser.add_argument("--list", action="store_true", help="say what attacks there are")
    parser.add_argument("--table", action="store_true", help="write the table of docs/attacks again")
    parser.add_argument("--serving", nargs="+", choices=_SERVINGS, default=_SERVINGS)
    parser.add_argument("--workers", nargs="+", type=int, default=(1, 2))
    parser.add_argument("--seconds", type=float, default=3.0, help="how long each attack goes on")
    parser.add_argument("--repeat", type=int, default=1, help="how often there is each; the worst is kept")
    parser.add_argument("--busy", action="store_true", help="two loops compute on the machine meanwhile")
    parser.add_argument("--into", choices=(BEFORE, AFTER), help="keep the figures in docs/attacks, and write the table")
    parser.add_argument("--frames", type=int, metavar="N", help="connections of random frames in all: 100000")
    parser.add_argument("--seed", default="1", help="any text; the same one gives the same random frames")
    parser.add_argument("--all", action="store_true", help="run " + ", ".join(part.name for part in PARTS) + " besides")
    for part in PARTS:
        parser.add_argument(f"--{part.name}", action="store_true", help=f"run {part.module} besides")
    return parser.parse_args()


def main() -> int:
    """Runs; 1 where others noticed more than they may."""
    arguments = parse_arguments()
    if arguments.list:
        print("\n".join(f"{attack.kind:12} {attack.name:28} {attack.sentence}" for attack in ATTACKS.values()))
        return 0
    os.environ.setdefault("TENSOR_RESHAPE_ENGINE", "event")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that servers and clients end with this process
    begin = time.monotonic()
    problems = [] if arguments.table else [*attack_all(arguments), *send_frames(arguments), *run_parts(arguments)]
    if arguments.table or arguments.into:
        write_table()
    print(f"{time.monotonic() - begin:.0f} s", *problems or ["passed"], sep="\n")
    return 1 if problems else 0


def attack_all(arguments: argparse.Namespace) -> Iterator[str]:
    """Runs the attacks, and yields what is not as it must be."""
    attacks = [replace(attack, busy=attack.busy or arguments.busy) for attack in choose(arguments.only)]
    total = len(attacks) * len(arguments.serving) * len(arguments.workers) * arguments.repeat
    worst: dict[str, Row] = {}
    number = 0
    for workers, serving in product(arguments.workers, arguments.serving):
        for row in run_attacks(attacks * arguments.repeat, serving, workers, arguments.seconds):
            number += 1
            print(f"{number}/{total} {row.key}: {row.describe()}", flush=True)
            worst[row.key] = max(worst.get(row.key, row), row, key=_weigh)
            if arguments.into:
                keep(arguments.into, rows=[worst[row.key]])
            missed = find_misses(row, ATTACKS[row.attack].bounds)
            if missed:
                yield f"{row.key}, {number}: {'; '.join(missed)}"


def choose(names: list[str] | None) -> list[Attack]:
    """Returns the attacks of these names and kinds; all of them where there are no names.

    Raises:
        SystemExit: there is no attack of a name.
    """
    if names is None:
        return list(ATTACKS.values())
    unknown = set(names) - set(ATTACKS) - {attack.kind for attack in ATTACKS.values()}
    if unknown:
        message = f"no attack, and no kind of attacks, has a name of {sorted(unknown)}; see --list"
        raise SystemExit(message)
    return [attack for attack in ATTACKS.values() if attack.name in names or attack.kind in names]


def _weigh(row: Row) -> tuple[bool, int, float]:
    return bool(row.failure), row.lost_calls, row.p99_ms


def send_frames(arguments: argparse.Namespace) -> Iterator[str]:
    """Sends random frames, and yields what is not as it must be."""
    count = arguments.frames if arguments.frames is not None else 0 if arguments.only is not None else 100_000
    for serving in arguments.serving if count else ():
        try:
            frames = run_random_frames(serving, count // len(arguments.serving), arguments.seed)
        except (AssertionError, OSError, RuntimeError, subprocess.TimeoutExpired) as error:
            yield f"random frames {serving}: {type(error).__name__}: {error}"
            continue
        print(f"random frames, {serving}: {frames.describe()}\n  {frames.statuses}", flush=True)
        if arguments.into:
            keep(arguments.into, frames=[frames])
        yield from (f"random frames {serving}: {missed}" for missed in frames.find_misses())


def run_parts(arguments: argparse.Namespace) -> Iterator[str]:
    """Runs the other programs that were asked for, and yields which fail."""
    for part in PARTS:
        if not (arguments.all or getattr(arguments, part.name)):
            continue
        if subprocess.run([sys.executable, "-m", part.module, *part.arguments], cwd=ROOT, check=False).returncode:
            yield f"{part.name} fails"


if __name__ == "__main__":
    sys.exit(main())
