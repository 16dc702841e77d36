"""The explorer's answers as a method of the server: what is behind the question mark in, JSON out.

Laws: it is InferShape under another form, and so is named, admitted, counted and limited as InferShape. To read, draw
and write takes turns, as all that computes with the interpreter's lock; and always on a thread that may take its time.
"""

import json
from collections.abc import Sequence

from tensor_reshape.explorer.answers import answer_typed
from tensor_reshape.explorer.typed_questions import TypedQuestion
from tensor_reshape.rules.questions import ShapeAnswer, ShapeRequest
from tensor_reshape.server.engine.fair_locks import FairLock
from tensor_reshape.server.service.method_tables import IsOver, Method
from tensor_reshape.server.service.methods import ReshapeService
from tensor_reshape.server.service.works import Work, always
from tensor_reshape.wire.methods import INFER_SHAPE


def build_explorer_method(service: ReshapeService, listen: Sequence[str]) -> Method:
    """Returns the method that answers what was typed by asking `service`; see `pages.build_routes`."""
    turns = FairLock()

    def answer(query: bytes, is_over: IsOver) -> bytes:
        def ask(request: ShapeRequest) -> ShapeAnswer:
            return service.infer(lambda: request, lambda result: result, is_over)

        with turns:
            record = answer_typed(TypedQuestion.of(query), ask, listen)
            return json.dumps(record, separators=(",", ":")).encode()

    # A drawing takes a millisecond, which other calls need not wait for.
    return Method(INFER_SHAPE.path, answer, find_work=always(Work.QUERIES))
