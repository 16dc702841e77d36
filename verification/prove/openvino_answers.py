"""OpenVINO's answers beside this project's: what is known of the output of Reshape-1, and the bytes of tensors.

Ours is to be the same, or within theirs, or different for a reason of `differences`; whatever they say, ours is to
admit the output of each instance. Tensors are of every element type; bytes are random in all places, behind the last
element too. OpenVINO's own tensors say how many there are.
"""

import time
from collections import Counter
from collections.abc import Sequence
from itertools import islice
from math import prod
from random import Random
from typing import Any, NamedTuple

import numpy as np
import openvino
from openvino import opset1

from tensor_reshape.rules.dims import AnyDim, Dim, Interval, find_bounds, format_dims
from tensor_reshape.rules.dtypes import DataType
from tensor_reshape.rules.limits import DEFAULT_LIMITS
from tensor_reshape.rules.operations import RESHAPE
from tensor_reshape.rules.questions import AnyQuestion, Question
from tensor_reshape.server.service.methods import ReshapeService
from tensor_reshape.wire.arrays import view_array
from tensor_reshape.wire.reshapes import ReshapeCall, decode_reshape_response, encode_reshape_request
from tensor_reshape.wire.tensors import TensorView
from tests.oracles.shape_instances import find_accepted
from verification.instances import find_any, find_outside
from verification.prove.differences import (
    REASONS,
    SAME,
    TIGHTER,
    UNEXPLAINED,
    UNSOUND,
    Answer,
    Comparison,
    ask_ours,
    judge,
)
from verification.prove.fitting_questions import generate
from verification.tasks import Progress

_FINDINGS = (UNSOUND, UNEXPLAINED)
_MAX_SHOWN = 10
_INSTANCES = 200
_UNBOUNDED = -1
_DIMS = (0, 1, 1, 2, 2, 3, 3, 4, 5, 7, 8, 9)
_SERVICE = ReshapeService(DEFAULT_LIMITS)


def compare_answers(seed: str, count: int, *, examples: bool) -> int:
    """Asks both so many questions; prints what became of them, and returns how many answers are findings."""
    print(f"seed {seed}, openvino {openvino.__version__}", flush=True)
    kinds, shown = Counter[tuple[str, str]](), Counter[str]()
    begin, progress = time.monotonic(), Progress(count, "questions")
    for number, (kind, question) in enumerate(islice(generate(Random(seed)), count)):
        comparison = _compare(question)
        verdict = judge(comparison)
        kinds[kind, verdict] += 1
        if shown[verdict] < (_MAX_SHOWN if verdict in _FINDINGS else int(examples)):
            shown[verdict] += 1
            print(_describe(number, verdict, comparison), flush=True)
        progress.show(number + 1, sum(shown[finding] for finding in _FINDINGS))
    columns = list(dict.fromkeys(kind for kind, _ in kinds))
    print("".join([f"{'':32}", *[f"{column:>16}" for column in (*columns, "together")]]))
    for verdict in (SAME, TIGHTER, *REASONS, *_FINDINGS):
        counts = [kinds[column, verdict] for column in columns]
        print("".join([f"{verdict:32}", *[f"{number:16}" for number in (*counts, sum(counts))]]))
    wrong = sum(number for (_, verdict), number in kinds.items() if verdict in _FINDINGS)
    print(f"{count} questions in {time.monotonic() - begin:.0f} s: {wrong} findings")
    return wrong


def _compare(question: AnyQuestion) -> Comparison:
    """Asks both, and tries instances: some of all, and such as either answer leaves out."""
    ours, theirs = ask_ours(question), _ask_theirs(question)
    accepted = {*find_accepted(question, budget=_INSTANCES).accepted, *find_any(question)}
    for answer in (ours, theirs):
        dims = answer.dims or ()
        # Of an answer of another rank, or that has an empty interval, each output is outside.
        if len(dims) == len(question.target or ()) and not any(bounds.is_empty for bounds in dims):
            accepted.update(find_outside(question, list(map(Dim, dims))))
    return Comparison(question, ours, theirs, {one.output for one in accepted})


def _describe(number: int, verdict: str, one: Comparison) -> str:
    question, outside = one.question, one.list_outside(one.ours if verdict == UNSOUND else one.theirs)
    lines = [
        f"{verdict}: question {number}, special_zero {question.special_zero}",
        f"  data {format_dims(question.data)}, target {format_dims(question.target)}; {len(one.outputs)} outputs",
        f"  ours   {one.ours}",
        f"  theirs {one.theirs}",
    ]
    return "\n".join([*lines, *(f"  lacking, for one: {list(output)}" for output in outside[:1])])


def _ask_theirs(question: AnyQuestion) -> Answer:
    """Returns the answer of OpenVINO: the output shape of a node that it has validated."""
    data = openvino.op.Parameter(openvino.Type.f32, _make_shape(question.data))
    target = question.target or ()
    try:
        # Items that are intervals are lengths of other data.
        items = _make_constant(target) if all(isinstance(item, int) for item in target) else None
        node = opset1.reshape(data, items or opset1.concat(list(map(_make_item, target)), 0), question.special_zero)
        shape = node.output(0).get_partial_shape()
    except RuntimeError as error:
        return Answer(None, str(error).split("\n", 1)[0])
    return Answer(None if shape.rank.is_dynamic else tuple(map(_read_dim, shape)))


def _make_shape(dims: Sequence[AnyDim] | None) -> Any:  # noqa: ANN401 - OpenVINO has no types
    if dims is None:
        return openvino.PartialShape.dynamic()
    bounds = map(find_bounds, dims)
    return openvino.PartialShape(
        [openvino.Dimension(low, _UNBOUNDED if high is None else high) for low, high in bounds]
    )


def _make_constant(items: Sequence[AnyDim]) -> Any:  # noqa: ANN401 - OpenVINO has no types
    return openvino.op.Constant(openvino.Type.i64, openvino.Shape([len(items)]), list(items))


def _make_item(item: AnyDim) -> Any:  # noqa: ANN401 - OpenVINO has no types
    if isinstance(item, int):
        return _make_constant([item])
    return opset1.shape_of(openvino.op.Parameter(openvino.Type.f32, _make_shape([item])))


def _read_dim(dim: Any) -> Interval:  # noqa: ANN401 - OpenVINO has no types
    high = dim.get_max_length()
    return Interval(dim.get_min_length(), None if high == _UNBOUNDED else high)


class Tensor(NamedTuple):
    """A tensor, and a target that goes with it."""

    data_type: DataType
    dims: tuple[int, ...]
    target: tuple[int, ...]
    data: bytes


def compare_tensors(seed: str, count: int) -> int:
    """Reshapes so many tensors on both sides; returns how many came out differently, of which some are shown."""
    random, tried, wrong = Random(seed), Counter[DataType](), 0
    progress = Progress(count, "tensors")
    for number in range(count):
        one = _choose_tensor(random)
        ours, theirs = _reshape_ours(one), _reshape_theirs(one)
        tried[one.data_type] += 1
        wrong += ours != theirs
        if ours != theirs and wrong <= _MAX_SHOWN:
            print(f"OTHER BYTES: {one}\n  ours   {ours}\n  theirs {theirs}", flush=True)
        progress.show(number + 1, wrong)
    types = ", ".join(f"{data_type} {tried[data_type]}" for data_type in sorted(tried))
    print(f"{count} tensors ({types}): {wrong} findings")
    return wrong


def _choose_tensor(random: Random) -> Tensor:
    """Returns a random tensor of a random type, and a target that the rules allow."""
    data_type = random.choice(list(DataType))
    dims = tuple(random.choice(_DIMS) for _ in range(random.randint(0, 4)))
    target = list(dims)
    random.shuffle(target)
    if target and 0 not in target and random.random() < 0.5:
        target[random.randrange(len(target))] = -1
    data = random.randbytes(_make_tensor(data_type, dims).byte_size)
    return Tensor(data_type, dims, tuple(target) if random.random() < 0.8 else (prod(dims),), data)


def _reshape_ours(one: Tensor) -> tuple[tuple[int, ...], bytes]:
    """Returns dims and bytes that this project makes of a tensor, from message to message."""
    question = Question(
        operation=RESHAPE, data=one.dims, target=one.target, special_zero=False, data_type=one.data_type
    )
    data = TensorView(one.data_type, one.dims, None, memoryview(one.data))
    request = encode_reshape_request(ReshapeCall(question, data), view_array(np.array(one.target, np.int64), "shape"))
    output = decode_reshape_response(_SERVICE.execute(RESHAPE, request))
    return tuple(output.dims), bytes(output.payload)


def _reshape_theirs(one: Tensor) -> tuple[tuple[int, ...], bytes]:
    """Returns what OpenVINO makes of it: what the reference implementation of a node executes."""
    parameter = openvino.op.Parameter(_find_type(one.data_type), openvino.PartialShape(list(one.dims)))
    node = opset1.reshape(parameter, _make_constant(one.target), False)
    data, output = (
        _make_tensor(one.data_type, one.dims),
        openvino.Tensor(node.output(0).get_element_type(), node.output(0).get_shape()),
    )
    _view_bytes(data)[:] = np.frombuffer(one.data, np.uint8)
    is_executed = openvino.Model([node], [parameter], "node").evaluate([output], [data])
    assert is_executed, f"OpenVINO does not execute {node}"
    return tuple(output.shape), _view_bytes(output).tobytes()


def _find_type(data_type: DataType) -> Any:  # noqa: ANN401 - OpenVINO has no types
    return getattr(openvino.Type, str(data_type))


def _make_tensor(data_type: DataType, dims: Sequence[int]) -> Any:  # noqa: ANN401 - OpenVINO has no types
    return openvino.Tensor(_find_type(data_type), openvino.Shape(list(dims)))


def _view_bytes(tensor: Any) -> np.ndarray[Any, np.dtype[np.uint8]]:  # noqa: ANN401 - OpenVINO has no types
    flat: np.ndarray[Any, np.dtype[np.uint8]] = tensor.data.reshape(-1).view(np.uint8)
    return flat
