"""Executes single queries in one encoding, with a cache of their results.

The bytes of a query are the key in the cache.

The cache is useful because compute graphs repeat their queries. A query with a cached result takes less than 1 us.
Without the cache, a query of known dims takes 27 us.
"""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from tensor_reshape.rules.limits import LIGHT_HEADER_BYTES
from tensor_reshape.rules.questions import ShapeAnswer, ShapeRequest
from tensor_reshape.runtime.caches import RecentCache
from tensor_reshape.server.service.method_tables import IsOver

if TYPE_CHECKING:
    from tensor_reshape.server.service.methods import ReshapeService

MAX_CACHE_BYTES = 5 << 20
"""The maximum memory of each of the two parts of the cache, in bytes. A part holds 10,000 results of the usual size."""

MAX_CACHED_RESULT_BYTES = 4 * 1024
"""The maximum size of a query together with its result in the cache."""


class EncodedQueries:
    """Executes queries in one encoding. Any thread may use this object."""

    def __init__(
        self, service: "ReshapeService", read: Callable[[bytes], ShapeRequest], write: Callable[[ShapeAnswer], bytes]
    ) -> None:
        """Starts with an empty cache.

        Args:
            service: the service that executes the queries.
            read: a function that decodes a query, or raises an error if the query is malformed.
            write: a function that encodes a result.
        """
        self._service, self._read, self._write = service, read, write
        self._results: RecentCache[bytes, bytes] = RecentCache(MAX_CACHE_BYTES, MAX_CACHED_RESULT_BYTES)

    def respond(self, raw: bytes, is_over: IsOver = lambda: False) -> bytes:
        """Returns the encoded result of a query.

        Raises:
            ReshapeError: the query is rejected, or the client no longer waits.
        """
        return self._find(raw) or self._service.infer(partial(self._read, raw), partial(self._keep, raw), is_over)

    def respond_light(self, raw: bytes) -> bytes | None:
        """Returns the encoded result if it is cached, or if the query is short and needs no search.

        Otherwise returns None.

        Raises:
            ReshapeError: the query is rejected.
        """
        found = self._find(raw)
        if found is not None or len(raw) > LIGHT_HEADER_BYTES:
            return found
        result = self._service.infer_light(self._read(raw))
        return None if result is None else self._keep(raw, result)

    def _find(self, raw: bytes) -> bytes | None:
        found = self._results[raw]
        if found is not None:
            self._service.lookups.hits += 1
        return found

    def _keep(self, raw: bytes, result: ShapeAnswer) -> bytes:
        self._service.lookups.misses += 1
        response = self._write(result)
        self._results.keep(raw, response, len(raw) + len(response))
        return response
