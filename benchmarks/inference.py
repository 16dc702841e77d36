"""What it costs to infer a shape: over the wire in batches and one by one, in this process, and in OpenVINO.

Everything is measured in turn, round by round, so that the machine's drift hits all: only the ratios mean anything.
Run: `python -m benchmarks.inference [--rounds R] [--questions N]`; it writes docs/benchmarks/inference.md. OpenVINO is
measured where the dependency group `openvino` is installed.
"""

import argparse
import gc
import os
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.cells import TCP
from benchmarks.environments import Peers
from benchmarks.machines import describe_machine
from benchmarks.processes import ROOT, ServerProcess
from benchmarks.ratios import Ratio
from benchmarks.reports import build_table, format_number
from benchmarks.shape_questions import PARTS, ShapeQuestion, make_hostile_queries, make_questions
from tensor_reshape.client import Client, InferredShape, ReshapeError, ShapeQuery, infer_locally
from tensor_reshape.rules.dims import find_bounds
from tensor_reshape.rules.inference import infer_shape
from tensor_reshape.rules.operations import RESHAPE
from tensor_reshape.rules.questions import Question

OUTPUT = ROOT / "docs" / "benchmarks" / "inference.md"
_SIZES = (100, 1_000, 10_000, 50_000)
_BASE_SIZE = 1_000
_SINGLE_CALLS = 200
_KNOWN_CALLS = 2_000
_HOSTILE_ITEMS = 20
_MIXED, _COMMON = "mixed", "a question of the mix"
_BATCH, _LOCAL, _OPENVINO = "a batch through the RPC", "`infer_locally`", "OpenVINO"
_ALONE, _BARE = "alone through the RPC", "`rules.infer_shape`, a known shape"


class Key(NamedTuple):
    """A cell of the tables: who answers what."""

    table: str
    row: str
    who: str = ""


class Work(NamedTuple):
    """What is timed: `run` answers `items` questions."""

    items: int
    run: Callable[[], object]


@dataclass
class Timings:
    """The seconds for one question, round by round."""

    rounds: dict[Key, list[float]] = field(default_factory=dict)

    def measure(self, works: dict[Key, Work], rounds: int) -> None:
        """Times all works in turn; each round begins with another one."""
        keys = list(works)
        self.rounds = {key: [] for key in keys}
        for number in range(rounds):
            turn = number % len(keys)
            for key in (*keys[turn:], *keys[:turn]):
                begin = time.perf_counter()
                works[key].run()
                self.rounds[key].append((time.perf_counter() - begin) / works[key].items)
            print(f"round {number + 1} of {rounds}", file=sys.stderr, flush=True)

    def tell(self, key: Key) -> str:
        """Returns the median microseconds and their spread, a dash where nothing was measured."""
        if key not in self.rounds:
            return "-"
        low, middle, high = (format_number(choose(self.rounds[key]) * 1e6) for choose in (min, statistics.median, max))
        return f"{middle} ({low}-{high})"

    def compare(self, over: Key, under: Key) -> str:
        """Returns how many times as long `over` takes as `under`, a dash where one was not measured."""
        if over not in self.rounds or under not in self.rounds:
            return "-"
        ratios = [one / base for one, base in zip(self.rounds[over], self.rounds[under], strict=True)]
        return str(Ratio(statistics.median(ratios), min(ratios), max(ratios)))


def parse_arguments() -> argparse.Namespace:
    """Reads the command line."""
    parser = argparse.ArgumentParser("python -m benchmarks.inference", description=__doc__)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--questions", type=int, default=10_000, help="of each batch that is compared with OpenVINO")
    parser.add_argument(
        "--sizes", nargs="+", type=int, default=_SIZES, help="of batches that are compared with another"
    )
    parser.add_argument("--output", type=Path, default=OUTPUT)
    return parser.parse_args()


def main() -> None:
    """Measures and reports."""
    arguments = parse_arguments()
    load = os.getloadavg()[0]
    peer = import_module("benchmarks.openvino_shapes") if find_spec("openvino") else None
    peers = Peers(ROOT / ".venv-peers")
    server = ServerProcess("ours", TCP, peers)
    try:
        with Client(server.address, timeout=300.0) as client:
            client.wait_until_ready()
            works = build_works(client, arguments.questions, arguments.sizes, peer)
            gc.collect()
            gc.freeze()  # a run through all questions of all batches is no part of answering one
            timings = Timings()
            timings.measure(works, 1)  # a warm-up
            timings.measure(works, arguments.rounds)
    finally:
        server.stop()
    begin = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime())
    pace = f"{begin}: {arguments.rounds} rounds; batches of {arguments.questions:,}; load before: {load:.1f}"
    version = f"openvino {peer.VERSION}" if peer else "openvino is not installed, so its cells are empty"
    text = report(timings, describe_machine(peers), (version, pace))
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    arguments.output.write_text(text)
    print(text)


def build_works(client: Client, count: int, sizes: Sequence[int], peer: Any) -> dict[Key, Work]:  # noqa: ANN401
    """Returns all that is timed, each checked once."""
    works: dict[Key, Work] = {}
    for name, parts in ((_MIXED, PARTS), *((part, (part,)) for part in PARTS)):
        questions = make_questions(count, parts)
        works.update({Key("mix", name, who): work for who, work in compare_all(client, questions, peer).items()})
    for size in sorted({*sizes, _BASE_SIZE}):
        works[Key("size", f"{size:,}")] = check_batch(client, make_questions(size, seed=2))
    works.update(build_single_works(client))
    works.update(build_hostile_works(client))
    return works


def compare_all(client: Client, questions: Sequence[ShapeQuestion], peer: Any) -> dict[str, Work]:  # noqa: ANN401
    """Returns who answers these questions; all give answers that admit what is right."""
    queries = [question.query for question in questions]
    works = {_BATCH: check_batch(client, questions), _LOCAL: Work(len(queries), partial(infer_locally, queries))}
    if peer is not None:
        ask = peer.prepare(questions)
        peer.check(questions, ask())
        works[_OPENVINO] = Work(len(queries), ask)
    return works


def check_batch(client: Client, questions: Sequence[ShapeQuestion]) -> Work:
    """Returns the batch of these questions, once its answers are right, and those that this process gives.

    Raises:
        ValueError: one is not.
    """
    queries = [question.query for question in questions]
    answers = client.infer_shapes(queries)
    for question, answer, local in zip(questions, answers, infer_locally(queries), strict=True):
        if answer != local or not _admits(answer, question.output):
            message = f"the answer to {question} is {answer!r}, in this process {local!r}"
            raise ValueError(message)
    return Work(len(queries), partial(client.infer_shapes, queries))


def build_single_works(client: Client) -> dict[Key, Work]:
    """Returns the questions that are asked one by one, and one of which everything is known."""
    queries = [question.query for question in make_questions(_SINGLE_CALLS, seed=3)]
    known = Question(operation=RESHAPE, data=(8, 128, 768), target=(0, 0, 12, -1), special_zero=True)

    def ask_one_by_one() -> None:
        for query in queries:
            client.infer_shape(
                query.data_shape, query.shape, special_zero=query.special_zero, operation=query.operation
            )

    def infer_known() -> None:
        for _ in range(_KNOWN_CALLS):
            infer_shape(known)

    if infer_shape(known) != (8, 128, 12, 64):
        message = "the known shape is wrong"
        raise ValueError(message)
    return {
        Key("single", _ALONE): Work(len(queries), ask_one_by_one),
        Key("single", _BARE): Work(_KNOWN_CALLS, infer_known),
    }


def build_hostile_works(client: Client) -> dict[Key, Work]:
    """Returns batches of one question each: a common one, and those that are much work."""
    common = [question.query for question in make_questions(_HOSTILE_ITEMS, seed=4)]
    works = {Key("hostile", _COMMON): Work(len(common), partial(client.infer_shapes, common))}
    for name, query in make_hostile_queries().items():
        queries: list[ShapeQuery] = [query] * _HOSTILE_ITEMS
        answers = client.infer_shapes(queries)
        if any(str(answer) != str(infer_locally([query])[0]) for answer in answers):
            message = f"{name}: the server and this process differ"
            raise ValueError(message)
        works[Key("hostile", name)] = Work(len(queries), partial(client.infer_shapes, queries))
    return works


def report(timings: Timings, machine: dict[str, Any], notes: Sequence[str]) -> str:
    """Returns the file."""
    own = ", ".join(f"{name} {version}" for name, version in machine["versions"]["own"].items())
    lines = [
        f"- {machine['processor']}, {machine['cores']} cores, {machine['memory_gib']} GiB of memory",
        f"- {machine['system']}, Linux {machine['kernel']}, Python {machine['python']}",
        f"- {own}",
        *(f"- {note}" for note in notes),
    ]
    return "\n".join([_INTRODUCTION, "## The machine\n", *lines, "", *tell_tables(timings)])


def tell_tables(timings: Timings) -> list[str]:
    """Returns the tables; a ratio is made of two measurements of one round."""
    mixes, sizes, hostile = (
        [key.row for key in timings.rounds if key.table == table and key.who in {"", _BATCH}]
        for table in ("mix", "size", "hostile")
    )
    whos, base, common = (_BATCH, _LOCAL, _OPENVINO), Key("size", f"{_BASE_SIZE:,}"), Key("hostile", _COMMON)
    batch = Key("mix", _MIXED, _BATCH)

    def tell_mix(row: str) -> list[str]:
        keys = [Key("mix", row, who) for who in whos]
        ratios = [timings.compare(keys[2], key) for key in keys[:2]]
        return [row, *map(timings.tell, keys), *ratios]

    def tell_beside(table: str, row: str, under: Key) -> list[str]:
        key = Key(table, row)
        return [row, timings.tell(key), timings.compare(key, under)]

    mix_head = ("us a question", *whos, f"{_OPENVINO} / batch", f"{_OPENVINO} / `infer_locally`")
    return [
        "## Batches\n",
        build_table(mix_head, [tell_mix(row) for row in mixes]),
        "## One by one\n",
        build_table(
            ("", "us a question", "/ mixed batch"), [tell_beside("single", row, batch) for row in (_ALONE, _BARE)]
        ),
        "## Size of a batch\n",
        build_table(("items", "us a question", f"/ {_BASE_SIZE:,}"), [tell_beside("size", row, base) for row in sizes]),
        f"## Hostile questions, {_HOSTILE_ITEMS} a batch\n",
        build_table(("", "us a question", "/ common"), [tell_beside("hostile", row, common) for row in hostile]),
    ]


def _admits(answer: "InferredShape | ReshapeError", output: tuple[int, ...]) -> bool:
    if isinstance(answer, ReshapeError) or len(answer) != len(output):
        return False
    return all(find_bounds(dim).holds(size) for dim, size in zip(answer, output, strict=True))


_INTRODUCTION = """\
# What it costs to infer a shape

Reshapes of models, all distinct, with special_zero, by the rules of Reshape-1. Of `known` every dim is known, rank 2 to
5; of `intervals` batch and length are intervals or unknown; of `symbols` they have names; `mixed` is a third of each.
A batch is `Client.infer_shapes` against a server in a process of its own, over TCP: from Python objects to Python
objects. OpenVINO makes a Parameter, a Constant and a Reshape node in this process and reads the output's shape; its
shapes are prepared before. Each answer is checked before anything is timed. Everything is measured in turn, round by
round; cells show the median of the rounds, and the least and the greatest in brackets. A ratio above 1 means that what
is named first takes longer.

How to repeat it: `python -m benchmarks.inference [--rounds R] [--questions N]`, with the dependency group `openvino`.
"""


if __name__ == "__main__":
    main()
