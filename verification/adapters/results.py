"""What implementations answered, as it is committed: `conformance/results/IMPLEMENTATION.json`.

- Whoever has asked a library writes them, as `tensor-reshape conformance --results`; whoever reads them needs none.
"""

from collections.abc import Iterator

from conformance.adapters.libraries import Difference
from conformance.adapters.questions import read_question
from tensor_reshape.conformance.results import Results
from tensor_reshape.conformance.results import read_results as read_file
from verification.adapters.environments import ROOT

FOLDER = ROOT / "conformance/results"


def read_results() -> dict[str, Results]:
    """Returns all that is committed, by implementation."""
    return {path.stem: read_file(path) for path in sorted(FOLDER.glob("*.json"))}


def list_differences(results: Results) -> Iterator[Difference]:
    """Yields what differs, but for what is tighter than the kit."""
    for one in results.differences:
        if one.verdict.is_difference:
            yield Difference(
                implementation=results.implementation,
                case=one.id,
                rule=one.rule,
                question=read_question(one.question),
                asked=one.question,
                right=one.right,
                because=one.because,
                verdict=one.verdict,
                answer=one.answer or {},
            )
