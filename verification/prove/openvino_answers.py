"""Compares OpenVINO's answers with this project's for the output of Reshape-1.

Our answer must be the same, or within theirs, or different for a reason in `differences`. In all cases our answer must
admit the output of each instance.
"""

from collections.abc import Sequence
from itertools import islice
from random import Random

from conformance.adapters.openvino.adapter import answer as ask_openvino
from conformance.adapters.programs import Rejected
from conformance.adapters.questions import Dim as AskedDim
from conformance.adapters.questions import Question as AskedQuestion
from conformance.adapters.questions import Unknown, read_shape
from tensor_reshape.rules.dims import AnyDim, Dim, Interval, find_bounds, format_dims
from tensor_reshape.rules.questions import AnyQuestion
from tests.oracles.shape_instances import find_accepted
from verification.instances import find_any, find_outside
from verification.prove.differences import UNEXPLAINED, UNSOUND, Answer, Comparison, infer_ours, judge
from verification.prove.fitting_questions import generate
from verification.tasks import Tally, Task

_INSTANCES = 200


def compare_batch(task: Task) -> Tally:
    """Runs the queries of a batch on both."""
    seed, batch, count = task
    tally = Tally(count)
    for number, (kind, question) in enumerate(islice(generate(Random(seed)), count)):
        comparison = _compare(question)
        verdict = judge(comparison)
        tally.outcomes.update([f"of {kind}", verdict])
        if verdict in {UNSOUND, UNEXPLAINED}:
            tally.findings.append(f"batch {batch}, question {number}: {_describe(verdict, comparison)}")
    return tally


def _compare(question: AnyQuestion) -> Comparison:
    """Queries both, and tries instances: some of all, and others that either answer excludes."""
    ours, theirs = infer_ours(question), _infer_theirs(question)
    accepted = [*find_accepted(question, budget=_INSTANCES).accepted, *find_any(question)]
    for answer in (ours, theirs):
        dims = answer.dims or ()
        # If an answer has another rank or an empty interval, every output is outside.
        if len(dims) == len(question.target or ()) and not any(bounds.is_empty for bounds in dims):
            accepted.extend(find_outside(question, list(map(Dim, dims))))
    return Comparison(question, ours, theirs, {one.output for one in accepted})


def _describe(verdict: str, one: Comparison) -> str:
    question, outside = one.question, one.list_outside(one.ours if verdict == UNSOUND else one.theirs)
    lines = [
        f"{verdict}: special_zero {question.special_zero}",
        f"  data {format_dims(question.data)}, target {format_dims(question.target)}; {len(one.outputs)} outputs",
        f"  ours   {one.ours}",
        f"  theirs {one.theirs}",
    ]
    return "\n".join([*lines, *(f"  for example, it lacks {list(output)}" for output in outside[:1])])


def _infer_theirs(question: AnyQuestion) -> Answer:
    """Returns the answer of OpenVINO through the adapter of the conformance suite."""
    asked = AskedQuestion(
        operation="reshape",
        data=None if question.data is None else _write_dims(question.data),
        shape=_write_dims(question.target or ()),
        special_zero=question.special_zero,
    )
    try:
        dims = read_shape(ask_openvino(asked)["answer"].get("shape"))
    except Rejected as rejection:
        return Answer(None, str(rejection))
    return Answer(None if dims is None else tuple(map(_read_bounds, dims)))


def _write_dims(dims: Sequence[AnyDim]) -> tuple[AskedDim, ...]:
    return tuple(dim if isinstance(dim, int) else Unknown(*find_bounds(dim)) for dim in dims)


def _read_bounds(dim: AskedDim) -> Interval:
    return Interval(dim, dim) if isinstance(dim, int) else Interval(dim.min, dim.max)
