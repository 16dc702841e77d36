"""Single questions in one encoding: read, asked of the service, and the answers written.

- An answer is kept by the bytes of its question: graphs ask the same again and again.
- A question that needs a search is read once: it is kept as it was read until a thread takes it.
"""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from tensor_reshape.rules.inference import Unsolved
from tensor_reshape.rules.limits import LIGHT_HEADER_BYTES
from tensor_reshape.rules.questions import ShapeAnswer, ShapeRequest
from tensor_reshape.runtime.caches import RecentCache
from tensor_reshape.server.service.method_tables import IsOver

if TYPE_CHECKING:
    from tensor_reshape.server.service.methods import ReshapeService

MAX_CACHED_ANSWERS = 1024
"""How many answers are kept."""

MAX_CACHED_ANSWER_BYTES = 4 * 1024
"""The most that a question and its answer take together to be kept."""

_MAX_UNSOLVED = 64
"""Questions that are kept as they were read until a thread has them: more than are worked on. Others are read again."""


class EncodedQuestions:
    """Answers the questions of one encoding; safe to use from any thread."""

    def __init__(
        self, service: "ReshapeService", read: Callable[[bytes], ShapeRequest], write: Callable[[ShapeAnswer], bytes]
    ) -> None:
        """Asks `service`.

        Args:
            service: what answers.
            read: decodes a question, or raises its refusal.
            write: encodes an answer.
        """
        self._service, self._read, self._write = service, read, write
        self._lookups = service.lookups
        self._answers: RecentCache[bytes, bytes] = RecentCache(MAX_CACHED_ANSWERS, MAX_CACHED_ANSWER_BYTES)
        self._unsolved: dict[bytes, Unsolved] = {}  # questions on their way from the serving thread to another

    def answer(self, raw: bytes, is_over: IsOver = lambda: False) -> bytes:
        """Returns the answer to a question.

        Raises:
            ReshapeError: the question is refused, or nobody waits for the answer any more.
        """
        answer = self._answers[raw]
        if answer is not None:
            self._lookups.hits += 1
            return answer
        # A short question has been read by `answer_light` and left to this thread; one thread alone takes it up.
        return self._service.ask(
            lambda: self._unsolved.pop(raw, None) or self._read(raw), partial(self._keep, raw), is_over
        )

    def answer_light(self, raw: bytes) -> bytes | None:
        """Returns the answer to a short question that takes no search; None for any other.

        Raises:
            ReshapeError: the question is refused.
        """
        answer = self._answers[raw]
        if answer is not None:
            self._lookups.hits += 1
            return answer
        if len(raw) > LIGHT_HEADER_BYTES:
            return None
        begun = self._service.ask_light(self._read(raw))
        if isinstance(begun, ShapeAnswer):
            return self._keep(raw, begun)
        if len(self._unsolved) >= _MAX_UNSOLVED:
            self._unsolved.clear()  # of calls that were given up before a thread had them
        self._unsolved[raw] = begun
        return None

    def _keep(self, raw: bytes, answer: ShapeAnswer) -> bytes:
        self._lookups.misses += 1
        response = self._write(answer)
        self._answers.keep(raw, response, len(raw) + len(response))
        return response
