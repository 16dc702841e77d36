"""Compares the answers of this project with those of OpenVINO, on as many random questions as there is time for.

Both answer what is known of the output of Reshape-1. Ours has to be the same, or within theirs, or different for one of
the reasons that are listed; whatever they say, ours has to admit the output of each concrete instance that is tried.
Then both reshape random tensors of every element type, whose bytes have to be the same. All questions and tensors
follow from the seed.
"""

import argparse
import secrets
import sys
import time
from collections import Counter
from itertools import islice
from random import Random

import openvino

from tensor_reshape.rules.dims import format_dims
from tensor_reshape.rules.dtypes import DataType
from tensor_reshape.rules.errors import Reason
from tensor_reshape.rules.questions import AnyQuestion
from verification.compare.answers import ask_ours, ask_theirs
from verification.compare.instances import answer_instances
from verification.compare.questions import generate
from verification.compare.reasons import REASONS, Comparison, find_reason
from verification.compare.tensors import generate_reshape, reshape_ours, reshape_theirs
from verification.tasks import Progress

SAME, TIGHTER, UNSOUND, UNEXPLAINED = "equal", "tighter", "OURS LACKS AN OUTPUT", "NOT EXPLAINED"
_FINDINGS = (UNSOUND, UNEXPLAINED)
_FEW, _MANY = 200, 2000
"""How many instances are tried: of each question, and of one that is answered in another way."""
_MAX_SHOWN = 10


def parse_arguments() -> argparse.Namespace:
    """Reads the command line."""
    parser = argparse.ArgumentParser("scripts/compare", description=__doc__)
    parser.add_argument("questions", nargs="?", type=int, default=20_000, help="how many")
    parser.add_argument("--tensors", type=int, default=10_000, help="how many are reshaped")
    parser.add_argument("--seed", default=secrets.token_hex(4), help="any text; the same one gives the same questions")
    parser.add_argument("--examples", action="store_true", help="show one question of each difference")
    return parser.parse_args()


def main() -> int:
    """Runs; 1 where an answer of ours is wrong, or differs for no reason that is listed."""
    arguments = parse_arguments()
    print(f"seed {arguments.seed}, openvino {openvino.__version__}", flush=True)
    verdicts, kinds, shown = Counter[str](), Counter[tuple[str, str]](), Counter[str]()
    begin, progress = time.monotonic(), Progress(arguments.questions, "questions")
    for number, (kind, question) in enumerate(islice(generate(Random(arguments.seed)), arguments.questions)):
        verdict, comparison = judge(question)
        verdicts[verdict] += 1
        kinds[kind, verdict] += 1
        if shown[verdict] < find_room(verdict, examples=arguments.examples):
            shown[verdict] += 1
            print(describe(number, verdict, comparison), flush=True)
        progress.show(number + 1, sum(verdicts[finding] for finding in _FINDINGS))
    show(kinds, verdicts, time.monotonic() - begin)
    wrong = compare_tensors(Random(arguments.seed), arguments.tensors)
    return 1 if wrong or not verdicts or any(verdicts[finding] for finding in _FINDINGS) else 0


def compare_tensors(random: Random, count: int) -> int:
    """Reshapes so many tensors on both sides; returns how many came out differently, of which some are shown."""
    tried, wrong = Counter[DataType](), 0
    progress = Progress(count, "tensors")
    for number in range(count):
        one = generate_reshape(random)
        ours, theirs = reshape_ours(one), reshape_theirs(one)
        tried[one.data_type] += 1
        wrong += ours != theirs
        if ours != theirs and wrong <= _MAX_SHOWN:
            print(f"OTHER BYTES: {one}\n  ours   {ours}\n  theirs {theirs}", flush=True)
        progress.show(number + 1, wrong)
    types = ", ".join(f"{data_type} {tried[data_type]}" for data_type in sorted(tried))
    print(f"{count} tensors ({types}): {wrong} findings")
    return wrong


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
    return Comparison(question, ask_ours(question), ask_theirs(question), *answer_instances(question, instances))


def find_room(verdict: str, *, examples: bool) -> int:
    """Returns how many questions with this verdict are shown."""
    return _MAX_SHOWN if verdict in _FINDINGS else int(examples)


def describe(number: int, verdict: str, comparison: Comparison) -> str:
    """Writes a question with both answers."""
    question = comparison.question
    accepted = len(comparison.list_outputs())
    tried = f"{len(comparison.outputs)} instances{'' if comparison.is_complete else ' of more'}, {accepted} accepted"
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
