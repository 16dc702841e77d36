"""The method that computes the results of the explorer, which maps a query string to JSON.

- The method is another form of InferShape, and has the same name. The permissions, the metrics and the limits of
  InferShape therefore also apply to the explorer.
- A lock ensures that only one query at a time is parsed, drawn and written, because this work holds the interpreter
  lock. The method runs on a thread for long work.
"""

import json
from collections.abc import Sequence

from tensor_reshape.explorer.query_parser import QueryText
from tensor_reshape.explorer.responses import build_response
from tensor_reshape.rules.questions import ShapeAnswer, ShapeRequest
from tensor_reshape.server.engine.fair_locks import FairLock
from tensor_reshape.server.service.method_tables import IsOver, Method
from tensor_reshape.server.service.methods import ReshapeService
from tensor_reshape.server.service.works import Work, always
from tensor_reshape.wire.methods import INFER_SHAPE


def build_explorer_method(service: ReshapeService, listen: Sequence[str]) -> Method:
    """Returns the method that runs queries of the page on `service` (see `pages.build_routes`)."""
    turns = FairLock()

    def answer(query: bytes, is_over: IsOver) -> bytes:
        def ask(request: ShapeRequest) -> ShapeAnswer:
            return service.infer(lambda: request, lambda result: result, is_over)

        with turns:
            record = build_response(QueryText.of(query), ask, listen)
            return json.dumps(record, separators=(",", ":")).encode()

    # The method runs on a thread of the pool, because a drawing takes a millisecond and would delay the event loop.
    return Method(INFER_SHAPE.path, answer, find_work=always(Work.QUERIES))
