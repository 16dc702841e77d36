"""Single queries in one encoding, with a cache of their results.

- A result is cached by the bytes of its query, because graphs repeat their queries.
- A query that needs a search is decoded only once: it is kept until a thread takes it.
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

MAX_CACHE_BYTES = 5 << 20
"""The largest memory of a generation of cached results."""

MAX_CACHED_ANSWER_BYTES = 4 * 1024
"""The maximum size of a query together with its result in the cache."""

_MAX_UNSOLVED = 64
"""Decoded queries that wait for a thread: more than run at once. Others are decoded again."""


class EncodedQueries:
    """Executes the queries of one encoding; safe to use from any thread."""

    def __init__(
        self, service: "ReshapeService", read: Callable[[bytes], ShapeRequest], write: Callable[[ShapeAnswer], bytes]
    ) -> None:
        """Uses `service`.

        Args:
            service: executes the queries.
            read: decodes a query, or raises its error.
            write: encodes a result.
        """
        self._service, self._read, self._write = service, read, write
        self._lookups = service.lookups
        self._answers: RecentCache[bytes, bytes] = RecentCache(MAX_CACHE_BYTES, MAX_CACHED_ANSWER_BYTES)
        self._unsolved: dict[bytes, Unsolved] = {}  # queries that pass from the serving thread to another

    def respond(self, raw: bytes, is_over: IsOver = lambda: False) -> bytes:
        """Returns the result of a query.

        Raises:
            ReshapeError: the query is rejected, or the client no longer waits.
        """
        answer = self._answers[raw]
        if answer is not None:
            self._lookups.hits += 1
            return answer
        # `respond_light` has already decoded a short query, and only one thread takes it.
        return self._service.ask(
            lambda: self._unsolved.pop(raw, None) or self._read(raw), partial(self._keep, raw), is_over
        )

    def respond_light(self, raw: bytes) -> bytes | None:
        """Returns the result of a short query that needs no search; None for any other.

        Raises:
            ReshapeError: the query is rejected.
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
            self._unsolved.clear()  # left by calls that were aborted before a thread took them
        self._unsolved[raw] = begun
        return None

    def _keep(self, raw: bytes, answer: ShapeAnswer) -> bytes:
        self._lookups.misses += 1
        response = self._write(answer)
        self._answers.keep(raw, response, len(raw) + len(response))
        return response
