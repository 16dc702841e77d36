"""Makes as many shape queries as there is time for, and compares the answers with instances and with each other.

Two of three queries are small enough to try their instances one by one (`proofs` describes the comparison). The others
cover the whole range of the protobuf definition. All of them go over the wire and back, as single queries and in
batches with references between items. Their answers must be those of `infer_locally`. All queries follow from the seed.

With `--models` the program makes the recorded queries of models instead. With `--openvino` it also queries OpenVINO.
"""

import argparse
import sys

from verification.prove.models import KINDS, check_models
from verification.prove.proofs import BATCH, run_task
from verification.tasks import add_options, run_batches

_MODELS_SEED = "1"  # a regression: the same bounds each time


def main() -> int:
    """Runs the comparison. The status is 1 if there is a violation."""
    parser = argparse.ArgumentParser("scripts/verify prove", description=__doc__)
    parser.add_argument(
        "questions", nargs="?", type=int, help="number of queries; default: a million, or 20000 with --openvino"
    )
    add_options(parser)
    parser.add_argument("--models", action="store_true", help="make the recorded queries of models instead")
    parser.add_argument("--openvino", action="store_true", help="compare this project with OpenVINO instead")
    arguments = parser.parse_args()
    if arguments.models:
        return 0 if compare_models() else 1
    if arguments.openvino:
        from verification.prove.openvino_answers import compare_batch  # noqa: PLC0415 - an option

        return run_batches(compare_batch, arguments.questions or 20_000, BATCH, arguments)
    return run_batches(run_task, arguments.questions or 1_000_000, BATCH, arguments)


def compare_models() -> bool:
    """Prints how many answers to queries of models are the hull of their instances; False if one is not."""
    is_tight = True
    for kind in KINDS:
        found = list(check_models(kind, _MODELS_SEED, varied=5))
        wrong = [one.problem for one in found if one.problem]
        is_tight = is_tight and not wrong
        print(f"{kind}: {len(found)} answers, {len(wrong)} not tight,", end=" ")
        print(f"{sum(one.has_complete_conditions for one in found)} with complete conditions", *wrong, sep="\n  ")
    return is_tight


if __name__ == "__main__":
    sys.exit(main())
