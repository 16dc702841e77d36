"""Compares the shapes inferred from what is known in part with brute force, on as many questions as there is time for.

Every question is small enough to try its instances one by one. Each accepted instance must lie inside the answer, with
the symbols and equalities that the answer has (sound); where all instances can be tried, each end of the answer must be
reached by one (tight). All questions follow from the seed.
"""

import argparse
import multiprocessing
import secrets
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from random import Random

from conformance_cases import count_tighter
from shape_instances import Found, ask, check_soundness, check_tightness, find_accepted, is_exact
from tensor_reshape.core.dims import (
    AnyDim,
    Bounds,
    Dim,
    Symbol,
    find_bounds,
    format_dims,
    make_dim,
    make_term,
    name_dim,
)
from tensor_reshape.core.operations import DYNAMIC_RESHAPE, RESHAPE, STATIC_RESHAPE
from tensor_reshape.core.partial import PartialQuestion

BATCH = 500
_MAX_SHOWN = 10
_PROGRESS_SECONDS = 10.0
_OPERATIONS = (STATIC_RESHAPE, DYNAMIC_RESHAPE, RESHAPE, RESHAPE)
_NUMBERS = (0, 1, 1, 2, 2, 3, 4, 5, 6)
_NAMES = "NMK"

_Task = tuple[str, int, int]


@dataclass(slots=True)
class Tally:
    """What became of many questions."""

    outcomes: Counter[str] = field(default_factory=Counter)
    instances: int = 0
    violations: list[str] = field(default_factory=list)

    def add(self, other: "Tally") -> None:
        """Takes in another tally."""
        self.outcomes += other.outcomes
        self.instances += other.instances
        self.violations += other.violations


@dataclass(frozen=True, slots=True, kw_only=True)
class Style:
    """What a question is made of.

    Attributes:
        rank: the most dims of the data, and the most items.
        named: how many of the dims that are no numbers have a name.
        products: how many of the named ones are expressions.
        open: how many of the intervals have no upper end.
        unknown: how many of the items are unknown.
        expected: how often there is an expected shape.
        rankless: how often the rank of the data is unknown.
    """

    rank: int = 3
    named: float = 0.0
    products: float = 0.0
    open: float = 0.2
    unknown: float = 0.15
    expected: float = 0.15
    rankless: float = 0.0


STYLES = {
    "plain": Style(),
    "bounded": Style(open=0.0),
    "high rank": Style(rank=4, open=0.1, expected=0.1),
    "symbols": Style(named=0.6, open=0.1),
    "repeated symbols": Style(named=0.95, open=0.0, unknown=0.1, expected=0.05),
    "expressions": Style(named=0.8, products=0.5, open=0.1),
    "unknown items": Style(unknown=0.6, open=0.05),
    "expected": Style(expected=1.0, unknown=0.3, open=0.1),
    "unknown rank": Style(rankless=1.0, named=0.2),
}


def choose_question(random: Random, style: Style) -> PartialQuestion:
    """Returns a random question."""
    data = None if random.random() < style.rankless else _choose_dims(random, style)
    target: list[AnyDim] | None = [_choose_item(random, style) for _ in range(random.randint(0, style.rank))]
    expected = [_choose_dim(random, style) for _ in target or ()] if random.random() < style.expected else None
    if expected is not None and random.random() < style.unknown / 2:
        target = None
    return PartialQuestion(
        operation=random.choice(_OPERATIONS),
        data=data,
        target=target,
        special_zero=random.random() < 0.6,
        expected=expected,
    )


def _choose_dims(random: Random, style: Style) -> list[AnyDim]:
    return [_choose_dim(random, style) for _ in range(random.randint(0, style.rank))]


def _choose_dim(random: Random, style: Style) -> AnyDim:
    if random.random() < 0.35:
        return random.choice(_NUMBERS)
    low = random.choice((0, 0, 0, 1, 1, 2, 3))
    high = None if random.random() < style.open else low + random.choice((0, 1, 1, 1, 2))
    if random.random() >= style.named:
        return make_dim(Bounds(low, high))
    if random.random() < style.products:
        return _choose_expression(random)
    return name_dim(random.choice(_NAMES), low if random.random() < 0.5 else 0, high)


def _choose_expression(random: Random) -> Dim:
    symbols = [Symbol(name, Bounds(0, 4)) for name in _NAMES]
    above, below = random.choices(symbols, k=random.randint(1, 2)), random.choices(symbols, k=random.random() < 0.2)
    bounds = Bounds(random.choice((0, 0, 1)), None)
    return Dim(bounds, make_term(random.choice((1, 1, 2, 4)), above, random.choice((1, 1, 1, 2)), below))


def _choose_item(random: Random, style: Style) -> AnyDim:
    if random.random() < style.unknown:
        return None
    kind = random.random()
    if kind < 0.3:
        return -1
    if kind < 0.55:
        return 0
    return random.choice((1, 2, 3, 4, 6)) if kind < 0.75 else _choose_dim(random, style)


def prove(question: PartialQuestion, random: Random) -> tuple[str, Found, str]:
    """Returns what became of one question, its instances, and what is wrong, if anything."""
    found = find_accepted(question, random)
    try:
        answer = ask(question)
    except Exception as error:  # noqa: BLE001, whatever it is, it is to be shown
        return "crashed", found, repr(error)
    problem = check_soundness(found, answer)
    if problem:
        return "unsound", found, problem
    if not found.complete:
        return "sound, not all tried", found, ""
    if not is_exact(question):
        return "sound", found, ""
    problem = check_tightness(found, answer)
    if problem:
        return "loose", found, problem
    return "refused" if answer is None else "sound and tight", found, ""


def run_batch(task: _Task) -> Tally:
    """Proves one batch."""
    seed, number, count = task
    random, tally = Random(f"{seed}-{number}"), Tally()
    for index in range(count):
        name = random.choice(list(STYLES))
        question = choose_question(random, STYLES[name])
        outcome, found, problem = prove(question, random)
        tally.outcomes[outcome] += 1
        tally.outcomes[f"of {name}"] += 1
        tally.instances += found.tried
        if problem:
            tally.violations.append(f"batch {number}, question {index}: {describe(question)}: {outcome}: {problem}")
    return tally


def describe(question: PartialQuestion) -> str:
    """Writes a question in one line."""
    dims = [*(question.data or ()), *(question.target or ()), *(question.expected or ())]
    named = {f"{dim}:{find_bounds(dim)[:]}" for dim in dims if isinstance(dim, Dim) and dim.term is not None}
    expected = "" if question.expected is None else f", expected {format_dims(question.expected)}"
    zero = "special_zero" if question.special_zero else "literal zeros"
    shapes = f"{format_dims(question.data)} -> {format_dims(question.target)}{expected}"
    return f"{question.operation.name} {shapes}, {zero} {' '.join(sorted(named))}".rstrip()


def run_tasks(tasks: list[_Task], processes: int, say: Callable[[str], None]) -> Tally:
    """Proves all batches, and says how far it is."""
    with multiprocessing.get_context("spawn").Pool(processes) as pool:
        return _collect(pool.imap_unordered(run_batch, tasks), sum(count for _, _, count in tasks), say)


def _collect(batches: Iterable[Tally], total: int, say: Callable[[str], None]) -> Tally:
    tally, begin = Tally(), time.monotonic()
    shown, done = begin, 0
    for batch in batches:
        for violation in batch.violations[: max(_MAX_SHOWN - len(tally.violations), 0)]:
            say(violation)
        tally.add(batch)
        done += sum(count for name, count in batch.outcomes.items() if name.startswith("of "))
        if time.monotonic() - shown > _PROGRESS_SECONDS:
            shown = time.monotonic()
            pace, found = done / (shown - begin), len(tally.violations)
            say(f"  {done} of {total} questions, {pace:.0f} a second, {found} violations")
    return tally


def parse_arguments() -> argparse.Namespace:
    """Reads the command line."""
    parser = argparse.ArgumentParser("scripts/prove", description=__doc__)
    parser.add_argument("questions", nargs="?", type=int, default=1_000_000, help="how many")
    parser.add_argument("--seed", default=secrets.token_hex(4), help="any text; the same one gives the same questions")
    parser.add_argument("--batch", type=int, help="only this one, as a violation names it")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--conformance", action="store_true", help="compare the cases of the libraries instead")
    return parser.parse_args()


def main() -> int:
    """Runs; 1 where there is a violation."""
    arguments = parse_arguments()
    if arguments.conformance:
        return 0 if compare_cases() else 1
    count = arguments.questions
    print(f"seed {arguments.seed}, {arguments.processes} processes", flush=True)
    sizes = [min(BATCH, count - begin) for begin in range(0, count, BATCH)]
    tasks = [(arguments.seed, number, size) for number, size in enumerate(sizes)]
    begin = time.monotonic()
    tasks = tasks if arguments.batch is None else tasks[arguments.batch :][:1]
    tally = run_tasks(tasks, arguments.processes, lambda text: print(text, flush=True))
    for name, number in tally.outcomes.most_common():
        print(f"{number:10} {name}")
    print(f"{tally.instances:10} instances tried")
    print(f"{time.monotonic() - begin:.0f} s: {len(tally.violations)} violations")
    return 1 if tally.violations or not tasks else 0


def compare_cases() -> bool:
    """Prints how the answers compare with those of the libraries; False where one is wider."""
    counts = count_tighter()
    for name, number in counts.items():
        print(f"{number:10} {name}")
    return counts["wider"] == 0


if __name__ == "__main__":
    sys.exit(main())
