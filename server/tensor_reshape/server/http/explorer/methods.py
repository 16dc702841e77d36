"""The explorer's answers as a method of the server: what is behind the question mark in, JSON out.

Laws: it is InferShape under another form, and so is named, admitted, counted and limited as InferShape. To read, draw
and write takes turns, as all that computes with the interpreter's lock; and always on a thread that may take its time.
"""

import json
from collections.abc import Sequence

from tensor_reshape.server.calls.fair_locks import FairLock
from tensor_reshape.server.http.explorer.answers import answer_typed
from tensor_reshape.server.http.explorer.typed_questions import TypedQuestion
from tensor_reshape.server.service.methods import IsOver, Method


def build_explorer_method(infer: Method, listen: Sequence[str]) -> Method:
    """Returns the method that answers typed questions by asking `infer`; see `pages.build_routes`."""
    turns = FairLock()

    def answer(query: bytes, is_over: IsOver) -> bytes:
        with turns:
            record = answer_typed(TypedQuestion.of(query), lambda raw: infer.answer(raw, is_over), listen)
            return json.dumps(record, separators=(",", ":")).encode()

    return infer._replace(answer=answer, answer_light=_leave_to_a_thread)


def _leave_to_a_thread(_query: bytes) -> None:
    """A drawing takes a millisecond, which other calls need not wait for."""
