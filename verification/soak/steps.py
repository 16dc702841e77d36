"""The calls of a soak: what each sends through an SDK, and what must come of it."""

from collections.abc import Callable
from random import Random
from typing import Any, NamedTuple

import numpy as np

from tensor_reshape.client import CallTimeoutError, DataType, PackedTensor, Reason
from tensor_reshape.rules.errors import ReshapeError
from tensor_reshape.wire.arrays import DTYPES, Array

KIB, MIB = 1024, 1024 * 1024
_POOL = np.random.default_rng(20).integers(0, 256, 32 * MIB, np.uint8)
_FLOATS = ("f2", "f4")
_ALL_TYPES = tuple(dtype for data_type, dtype in DTYPES.items() if not data_type.is_packed)
_PACKED_TYPES = tuple(data_type for data_type in DataType if data_type.is_packed)
_REFUSED: tuple[tuple[tuple[int, ...], tuple[int, ...], Reason], ...] = (
    ((2, 3), (4, -1), Reason.NOT_DIVISIBLE),
    ((2, 3), (-1, -1), Reason.MULTIPLE_MINUS_ONE),
    ((2, 3), (7,), Reason.VOLUME_MISMATCH),
    ((2, 3), (-2,), Reason.INVALID_TARGET_VALUE),
    ((2, 3), (0, 0, 0), Reason.ZERO_INDEX_OUT_OF_RANGE),
    ((0, 3), (0, -1), Reason.MINUS_ONE_WITH_ZERO_VOLUME),
    ((1,) * 13, (1,), Reason.RANK_UNSUPPORTED),
    ((2**62, 4), (-1,), Reason.DIM_OVERFLOW),
)


class AbandonedError(Exception):
    """Raised by a caller that does not want the rest."""


class WrongAnswerError(Exception):
    """A call did not end as it must."""


class Step(NamedTuple):
    """One call.

    Attributes:
        name: of its kind, for the table.
        method: of the client.
        arguments: those without a name.
        keywords: the others.
        want: the answer: a shape, an array, or packed bytes.
        reason: of the refusal that must come instead.
        admitted: exceptions that may come instead.
    """

    name: str
    method: str
    arguments: tuple[Any, ...]
    keywords: dict[str, Any]
    want: tuple[int, ...] | Array | PackedTensor
    reason: Reason | None = None
    admitted: tuple[type[Exception], ...] = ()


class Deck:
    """Deals steps, each kind as often as its weight says."""

    def __init__(self, random: Random) -> None:
        """Deals what `random` decides."""
        self._random = random
        self._kinds: dict[Callable[[], Step], float] = {
            lambda: self.elements("no elements", 0): 150,
            lambda: self.elements("1 KiB", KIB): 300,
            lambda: self.elements("64 KiB", 64 * KIB): 150,
            lambda: self.elements("1 MiB", MIB): 40,
            lambda: self.elements("1 MiB as a stream", MIB, transfer="stream"): 8,
            lambda: self.elements("8 MiB as a stream", 8 * MIB): 4,
            lambda: self.elements("17 MiB in one message", 17 * MIB, transfer="inline", reason=True): 1,
            lambda: self.elements("view", 64 * KIB, transfer="view"): 60,
            lambda: self.packed(KIB): 40,
            lambda: self.packed(MIB, transfer="stream"): 4,
            lambda: self.strided(KIB): 60,
            lambda: self.strided(MIB): 6,
            self.infer: 120,
            self.refused: 80,
            self.late: 8,
            self.abandoned: 4,
        }

    def deal(self) -> Step:
        """Returns the next step."""
        return self._random.choices(list(self._kinds), list(self._kinds.values()))[0]()

    def elements(self, name: str, size: int, *, reason: bool = False, **keywords: Any) -> Step:
        """Reshapes about so many bytes."""
        method, dtype = self._choose_method()
        columns = self._random.choice((1, 2, 4, 8))
        array = self._draw(size, dtype, columns) if size else np.empty((0, columns), dtype)
        target = self._random.choice(((-1,), (array.shape[0] // 2, 2 * columns) if array.shape[0] % 2 == 0 else (-1,)))
        return Step(
            name,
            method,
            (array, target),
            {"special_zero": False, **keywords},
            array.reshape(-1 if len(target) == 1 else target),
            Reason.MESSAGE_TOO_LARGE if reason else None,
        )

    def strided(self, size: int) -> Step:
        """Reshapes an array whose elements are not in order, or not all there."""
        method, dtype = self._choose_method()
        array = self._draw(size, dtype, 8)
        if self._random.random() < 0.5:
            array = array.T
        else:
            array = np.broadcast_to(array[: max(len(array) // 8, 1), :1], (max(len(array) // 8, 1), 64))
        keywords = {"special_zero": False, "transfer": "inline"}
        return Step(f"strided, {size // KIB} KiB", method, (array, (-1,)), keywords, array.reshape(-1))

    def packed(self, size: int, **keywords: Any) -> Step:
        """Reshapes about so many bytes of elements that share them."""
        data_type = self._random.choice(_PACKED_TYPES)
        items = data_type.group_items
        groups = max(size // data_type.group_bytes, 1) + self._random.randrange(64)
        data = self._random.randbytes(groups * data_type.group_bytes)
        tensor = PackedTensor(data_type, (groups, items), data)
        want = PackedTensor(data_type, (items, groups), data)
        return Step(
            f"packed, {size // KIB} KiB", "reshape", (tensor, want.dims), {"special_zero": False, **keywords}, want
        )

    def infer(self) -> Step:
        """Asks for a shape."""
        dims = tuple(self._random.randint(1, 9) for _ in range(3))
        answer = (dims[0], dims[1] * dims[2])
        return Step("infer_shape", "infer_shape", (dims, (0, -1)), {"special_zero": True}, answer)

    def refused(self) -> Step:
        """Asks for a shape that there is not."""
        dims, target, reason = self._random.choice(_REFUSED)
        return Step("refused", "infer_shape", (dims, target), {"special_zero": True}, (), reason)

    def late(self) -> Step:
        """Has less time than it takes, mostly."""
        size = self._random.choice((KIB, MIB, 8 * MIB))
        step = self.elements("deadline", size, timeout=self._random.choice((0.0002, 0.001, 0.005)))
        return step._replace(admitted=(CallTimeoutError,))

    def abandoned(self) -> Step:
        """Ends a stream in the middle."""
        rest = self._random.randint(1, 3 * MIB)

        def stop(arrived: int, total: int) -> None:
            if total - arrived < rest:
                raise AbandonedError

        step = self.elements("abandoned stream", 3 * MIB, transfer="stream", progress=stop)
        return step._replace(admitted=(AbandonedError,))

    def large(self) -> Step:
        """What there is time to cancel."""
        size = self._random.choice((KIB, 64 * KIB, MIB, 8 * MIB))
        return self.elements("cancelled", size)

    def _choose_method(self) -> tuple[str, np.dtype[Any]]:
        method = self._random.choice(("static_reshape", "dynamic_reshape", "reshape"))
        return method, self._random.choice(_ALL_TYPES) if method == "reshape" else np.dtype(
            self._random.choice(_FLOATS)
        )

    def _draw(self, size: int, dtype: np.dtype[Any], columns: int) -> Array:
        """Returns other elements each time, a few more or less of them."""
        rows = max(size // dtype.itemsize // columns, 1) + self._random.randrange(64)
        begin = 8 * self._random.randrange((_POOL.nbytes - rows * columns * dtype.itemsize) // 8)
        elements: Array = _POOL[begin : begin + rows * columns * dtype.itemsize].view(dtype)
        return elements.reshape(rows, columns)


def judge(step: Step, answer: object) -> None:
    """Raises WrongAnswerError where `answer`, or the refusal that came instead, is not that of the step."""
    if isinstance(answer, ReshapeError):
        if answer.reason != step.reason:
            message = f"{step.name}: {answer.reason} {answer}; wanted {step.reason}"
            raise WrongAnswerError(message) from answer
        return
    if step.reason is not None or not _is_same(answer, step.want):
        message = f"{step.name}: {step.method} answered {answer!r:.500}; wanted {step.reason or step.want!r:.500}"
        raise WrongAnswerError(message)


def _is_same(answer: object, want: tuple[int, ...] | Array | PackedTensor) -> bool:
    if not isinstance(want, np.ndarray) or not isinstance(answer, np.ndarray):
        return not isinstance(want, np.ndarray) and answer == want
    same = answer.dtype == want.dtype and answer.shape == want.shape
    return same and answer.tobytes() == want.tobytes()
