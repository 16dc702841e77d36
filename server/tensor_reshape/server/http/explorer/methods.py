"""The method for queries of the shape explorer. The method takes a query string and returns the result as JSON.

- The server treats a query of the explorer as a call of the gRPC method InferShape, although the request and the
  response have other forms. The permissions, metrics and limits of InferShape therefore also apply to the explorer.
- The explorer processes only one query at a time, because parsing and drawing a query and writing its result hold the
  interpreter lock. The explorer method runs on a worker thread.
"""

import json
from collections.abc import Sequence

from tensor_reshape.explorer.query_parser import QueryText
from tensor_reshape.explorer.responses import build_response
from tensor_reshape.rules.questions import ShapeAnswer, ShapeRequest
from tensor_reshape.server.process.fair_locks import FairLock
from tensor_reshape.server.service.method_tables import IsOver, Method
from tensor_reshape.server.service.methods import ReshapeService
from tensor_reshape.server.service.works import Work, always
from tensor_reshape.wire.methods import INFER_SHAPE


def build_explorer_method(service: ReshapeService, listen: Sequence[str]) -> Method:
    """Returns the method that runs queries of the explorer page on `service` (see `pages.build_routes`)."""
    turns = FairLock()

    def answer(query: bytes, is_over: IsOver) -> bytes:
        def ask(request: ShapeRequest) -> ShapeAnswer:
            return service.infer(lambda: request, lambda result: result, is_over)

        with turns:
            record = build_response(QueryText.of(query), ask, listen)
            return json.dumps(record, separators=(",", ":")).encode()

    # The explorer method runs on a worker thread, because making a drawing takes a millisecond, which would delay the
    # event loop.
    return Method(INFER_SHAPE.path, answer, find_work=always(Work.QUERIES))
