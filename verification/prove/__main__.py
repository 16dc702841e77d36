"""Asks as many questions about shapes as there is time for, and compares the answers with instances, and each other.

Two of three questions are small enough to try their instances one by one: `proofs` says what is compared. The others
are as wide as the contract. All of them go over the wire and back, alone and in batches with links: the answers must
be those of `infer_locally`. All questions follow from the seed.

With `--models` it asks what exported models ask instead; with `--openvino` it asks OpenVINO as well.
"""

import argparse
import os
import secrets
import sys
import time

from verification.prove.models import KINDS, check_models
from verification.prove.proofs import list_tasks, run_tasks

_MODELS_SEED = "1"  # a regression: the same bounds each time


def parse_arguments() -> argparse.Namespace:
    """Reads the command line."""
    parser = argparse.ArgumentParser("scripts/verify prove", description=__doc__)
    parser.add_argument("questions", nargs="?", type=int, help="how many; default: a million, or 20000 with --openvino")
    parser.add_argument("--seed", default=secrets.token_hex(4), help="any text; the same one gives the same questions")
    parser.add_argument("--batch", type=int, help="only this one, as a violation names it")
    parser.add_argument("--share", type=float, default=1.0, help="of how many all is tried; the others go in batches")
    parser.add_argument("--processes", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--models", action="store_true", help="ask the recorded questions of models instead")
    parser.add_argument("--openvino", action="store_true", help="ask this project and OpenVINO instead")
    parser.add_argument("--tensors", type=int, default=10_000, help="how many both reshape, with --openvino")
    parser.add_argument("--examples", action="store_true", help="show one question of each difference from OpenVINO")
    return parser.parse_args()


def main() -> int:
    """Runs; 1 where there is a violation."""
    arguments = parse_arguments()
    if arguments.models:
        return 0 if compare_models() else 1
    if arguments.openvino:
        from verification.prove.openvino_answers import compare_answers, compare_tensors  # noqa: PLC0415 - an option

        wrong = compare_answers(arguments.seed, arguments.questions or 20_000, examples=arguments.examples)
        return 1 if wrong + compare_tensors(arguments.seed, arguments.tensors) else 0
    print(f"seed {arguments.seed}, {arguments.processes} processes", flush=True)
    begin = time.monotonic()
    tasks = list_tasks(arguments.seed, arguments.questions or 1_000_000, arguments.share)
    tasks = tasks if arguments.batch is None else tasks[arguments.batch :][:1]
    tally = run_tasks(tasks, arguments.processes)
    for name, number in tally.outcomes.most_common():
        print(f"{number:10} {name}")
    print(f"{tally.instances:10} instances tried")
    print(f"{time.monotonic() - begin:.0f} s: {len(tally.violations)} violations")
    return 1 if tally.violations or not tasks else 0


def compare_models() -> bool:
    """Prints how many answers to questions of models are the hull of their instances; False where one is not."""
    problems = {kind: list(check_models(kind, _MODELS_SEED, varied=5)) for kind in KINDS}
    for kind, found in problems.items():
        wrong = list(filter(None, found))
        print(f"{kind}: {len(found)} answers, {len(wrong)} not tight", *wrong, sep="\n  ")
    return not any(map(any, problems.values()))


if __name__ == "__main__":
    sys.exit(main())
