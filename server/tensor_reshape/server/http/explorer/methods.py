"""The results of the explorer as a method of the server: a query string in, JSON out.

Invariants: it is InferShape in another form, so it has the name, the permissions, the metrics and the limits of
InferShape. Parsing, drawing and writing take turns, like all work that holds the interpreter lock. They run on a thread
for long work.
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
    """Returns the method that runs queries of the page on `service`; see `pages.build_routes`."""
    turns = FairLock()

    def answer(query: bytes, is_over: IsOver) -> bytes:
        def ask(request: ShapeRequest) -> ShapeAnswer:
            return service.infer(lambda: request, lambda result: result, is_over)

        with turns:
            record = build_response(QueryText.of(query), ask, listen)
            return json.dumps(record, separators=(",", ":")).encode()

    # A drawing takes a millisecond, so it must not delay the event loop.
    return Method(INFER_SHAPE.path, answer, find_work=always(Work.QUERIES))
