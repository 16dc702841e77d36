"""Compares the answers of this project with those of OpenVINO, on as many random questions as there is time for.

Both answer what is known of the output of Reshape-1. Ours has to be the same, or within theirs, or different for one of
the reasons that are listed; whatever they say, ours has to admit the output of each concrete instance that is tried.
All questions follow from the seed.
"""

import argparse
import secrets
import sys
import time
from collections import Counter
from itertools import islice
from random import Random

import openvino
from verification.comparison.answers import ask_ours, ask_theirs
from verification.comparison.oracle import list_instances
from verification.comparison.questions import generate
from verification.comparison.reasons import REASONS, Comparison, find_reason

from tensor_reshape.rules.dims import format_dims
from tensor_reshape.rules.errors import Reason
from tensor_reshape.rules.questions import AnyQuestion

SAME, TIGHTER, UNSOUND, UNEXPLAINED = "equal", "tighter", "OURS LACKS AN OUTPUT", "NOT EXPLAINED"
_FINDINGS = (UNSOUND, UNEXPLAINED)
_FEW, _MANY = 200, 2000
"""How many instances are tried: of each question, and of one that is answered in another way."""
_MAX_SHOWN = 10
_PROGRESS_SECONDS = 10.0


def parse_arguments() -> argparse.Namespace:
    """Reads the command line."""
    parser = argparse.ArgumentParser("scripts/compare", description=__doc__)
    parser.add_argument("questions", nargs="?", type=int, default=20_000, help="how many")
    parser.add_argument("--seed", default=secrets.token_hex(4), help="any text; the same one gives the same questions")
    parser.add_argument("--examples", action="store_true", help="show one question of each difference")
    return parser.parse_args()


def main() -> int:
    """Runs; 1 where an answer of ours is wrong, or differs for no reason that is listed."""
    arguments = parse_arguments()
    print(f"seed {arguments.seed}, openvino {openvino.__version__}", flush=True)
    verdicts, kinds, shown = Counter[str](), Counter[tuple[str, str]](), Counter[str]()
    begin = last = time.monotonic()
    for number, (kind, question) in enumerate(islice(generate(Random(arguments.seed)), arguments.questions)):
        verdict, comparison = judge(question)
        verdicts[verdict] += 1
        kinds[kind, verdict] += 1
        if shown[verdict] < find_room(verdict, examples=arguments.examples):
            shown[verdict] += 1
            print(describe(number, verdict, comparison), flush=True)
        if time.monotonic() - last > _PROGRESS_SECONDS:
            last = time.monotonic()
            print(f"  {number + 1} of {arguments.questions} questions", flush=True)
    show(kinds, verdicts, time.monotonic() - begin)
    return 1 if not verdicts or any(verdicts[finding] for finding in _FINDINGS) else 0


def judge(question: AnyQuestion) -> tuple[str, Comparison]:
    """Returns how our answer stands to OpenVINO's."""
    comparison = compare(question, _FEW)
    ours, theirs = comparison.ours, comparison.theirs
    same = ours.dims == theirs.dims and (ours.refusal is None) == (theirs.refusal is None)
    if not same and not comparison.is_complete:
        comparison = compare(question, _MANY)
    if ours.refusal != Reason.RANK_LIMIT_EXCEEDED and comparison.list_outside(ours):
        return UNSOUND, comparison
    if same:
        return SAME, comparison
    if ours.refusal is None and theirs.refusal is None and ours.is_within(theirs):
        return TIGHTER, comparison
    return find_reason(comparison) or UNEXPLAINED, comparison


def compare(question: AnyQuestion, instances: int) -> Comparison:
    """Asks both, and tries so many instances."""
    return Comparison(question, ask_ours(question), ask_theirs(question), *list_instances(question, instances))


def find_room(verdict: str, *, examples: bool) -> int:
    """Returns how many questions with this verdict are shown."""
    return _MAX_SHOWN if verdict in _FINDINGS else int(examples)


def describe(number: int, verdict: str, comparison: Comparison) -> str:
    """Writes a question with both answers."""
    question = comparison.question
    accepted = len(comparison.list_outputs())
    tried = f"{len(comparison.instances)} instances{'' if comparison.is_complete else ' of more'}, {accepted} accepted"
    lines = [
        f"{verdict}: question {number}, special_zero {question.special_zero}",
        f"  data {format_dims(question.data)}, target {format_dims(question.target)}; {tried}",
        f"  ours   {comparison.ours}",
        f"  theirs {comparison.theirs}",
    ]
    outside = comparison.list_outside(comparison.ours if verdict == UNSOUND else comparison.theirs)
    return "\n".join([*lines, f"  lacking, for one: {list(outside[0])}"] if outside else lines)


def show(kinds: Counter[tuple[str, str]], verdicts: Counter[str], seconds: float) -> None:
    """Prints what became of all questions."""
    columns = list(dict.fromkeys(kind for kind, _ in kinds))
    print("".join([f"{'':32}", *[f"{column:>16}" for column in columns], f"{'together':>16}"]))
    for verdict in (SAME, TIGHTER, *REASONS, *_FINDINGS):
        counts = [kinds[column, verdict] for column in columns]
        print("".join([f"{verdict:32}", *[f"{count:16}" for count in (*counts, verdicts[verdict])]]))
    wrong = sum(verdicts[finding] for finding in _FINDINGS)
    print(f"{verdicts.total()} questions in {seconds:.0f} s: {wrong} findings")


if __name__ == "__main__":
    sys.exit(main())
