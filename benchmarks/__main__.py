"""The benchmark suite: interleaved rounds of this project beside others, written to docs/benchmarks/.

`benchmarks/install-peers` installs the others. Without an option everything is measured, which takes hours; `--quick`
measures a little of everything in a few minutes.
"""

import argparse
import os
import signal
import sys
import time
from pathlib import Path

from benchmarks.cells import CLIENTS, KIB, MIB, SIZES, TCP, TRANSPORTS, list_cells, parse_size
from benchmarks.contestants import CONTESTANTS, Contestant, find_contestant
from benchmarks.environments import Peers
from benchmarks.machines import describe_machine, read_free_memory
from benchmarks.plots import draw
from benchmarks.processes import ROOT
from benchmarks.reports import write_report
from benchmarks.results import Results
from benchmarks.rounds import Arena, Pace

OUTPUT = ROOT / "docs" / "benchmarks"
FILE = "results.json"
_MEMORY_SHARE = 0.7


def parse_arguments(words: list[str] | None = None) -> argparse.Namespace:
    """Reads the command line."""
    parser = argparse.ArgumentParser(
        "python -m benchmarks", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="few small cells, short rounds")
    parser.add_argument("--sizes", nargs="+", type=parse_size, metavar="SIZE", help="0 1KiB 64KiB ... 1GiB")
    parser.add_argument("--clients", nargs="+", type=int, metavar="N", help="1 16 64")
    parser.add_argument("--transports", nargs="+", choices=TRANSPORTS)
    parser.add_argument("--only", nargs="+", type=_find, metavar="NAME", help="the contestants")
    parser.add_argument("--skip", nargs="+", type=_find, metavar="NAME", default=[])
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--seconds", type=float, help="that clients call in each measurement")
    parser.add_argument(
        "--cell-seconds", type=float, default=60.0, help="a contestant slower than that has two rounds in a cell"
    )
    parser.add_argument("--timeout", type=float, default=300.0, help="seconds that the longest answer may take")
    parser.add_argument("--memory-gib", type=float, help="that tensors in flight may take; 70 %% of what is free")
    parser.add_argument("--peers", type=Path, default=ROOT / ".venv-peers", help="where install-peers put them")
    parser.add_argument("--output", type=Path, default=OUTPUT)
    parser.add_argument("--add", action="store_true", help="keep the other cells of results.json")
    parser.add_argument("--render", action="store_true", help="measure nothing: table and plot of results.json")
    parser.add_argument("--list", action="store_true", help="list the contestants")
    arguments = parser.parse_args(words)
    _fill_in(arguments)
    return arguments


def measure(arguments: argparse.Namespace) -> Results:
    """Measures; what there is so far is saved after every cell."""
    peers = Peers(arguments.peers.absolute())
    memory = int((arguments.memory_gib or read_free_memory() * _MEMORY_SHARE / 1024**3) * 1024**3)
    pace = Pace(arguments.rounds, arguments.seconds, arguments.cell_seconds, arguments.timeout, memory)
    contestants = [one for one in arguments.only or CONTESTANTS if one not in arguments.skip]
    settings = {
        "rounds": pace.rounds,
        "seconds": pace.seconds,
        "memory_gib": round(memory / 1024**3, 1),
        "load": round(os.getloadavg()[0], 1),
        "begin": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()),
    }
    results = Results(describe_machine(peers), settings)
    cells = list_cells(arguments.sizes, arguments.clients, arguments.transports)
    if arguments.add and (arguments.output / FILE).exists():
        earlier = _load(arguments)
        results.entries = [one for one in earlier.entries if one.cell not in cells]
        results.settings["earlier"] = [*earlier.settings.pop("earlier", []), earlier.settings]
    arena = Arena(peers, pace)
    begin = time.monotonic()
    try:
        for cell in cells:
            results.entries += arena.measure_cell(cell, contestants)
            results.settings["minutes"] = round((time.monotonic() - begin) / 60, 1)
            results.save(arguments.output / FILE)
    finally:
        arena.close()
    return results


def main() -> None:
    """Measures and reports."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that no server is left behind
    arguments = parse_arguments()
    if arguments.list:
        print("\n".join(f"{one.name:18}{one.label}" for one in CONTESTANTS))
        return
    results = _load(arguments) if arguments.render else measure(arguments)
    write_report(results, arguments.output / "results.md")
    draw(results, arguments.output / "throughput.png")
    print(arguments.output / "results.md")


def _load(arguments: argparse.Namespace) -> Results:
    return Results.load(arguments.output / FILE)


def _fill_in(arguments: argparse.Namespace) -> None:
    quick = arguments.quick
    arguments.sizes = arguments.sizes or ((KIB, MIB, 16 * MIB) if quick else SIZES)
    arguments.clients = arguments.clients or ((1, 16) if quick else CLIENTS)
    arguments.transports = arguments.transports or ((TCP,) if quick else TRANSPORTS)
    arguments.rounds = arguments.rounds or (3 if quick else 5)
    arguments.seconds = arguments.seconds or (0.2 if quick else 0.5)


def _find(name: str) -> Contestant:
    try:
        return find_contestant(name)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


if __name__ == "__main__":
    main()
