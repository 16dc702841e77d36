"""Servers as implementations, also those that fail."""

import grpc
import pytest

from conformance_runs import make_questions
from server_processes import ServerProcess
from tensor_reshape.cli.conformance_servers import ask_server
from tensor_reshape.client import CallTimeoutError, Client, InternalServerError, ServiceError, UnavailableError
from tensor_reshape.conformance.verdicts import Verdict
from tensor_reshape.testing import FakeClient


def test_each_question_has_an_answer(server: ServerProcess):
    questions, told = make_questions(600), list[None]()
    with Client(server.address) as client:
        replies = ask_server(client, questions, lambda: told.append(None))
    records = [{"id": question.id, "shape": [6]} for question in questions]
    assert [replies[question.id].record for question in questions] == records
    assert len(told) == 600


def test_unreachable_server_is_an_error():
    with Client("127.0.0.1:1", timeout=0.2) as client, pytest.raises(UnavailableError):
        ask_server(client, make_questions(1))


@pytest.mark.parametrize(
    ("error", "failure"),
    [
        (CallTimeoutError("late", grpc.StatusCode.DEADLINE_EXCEEDED), Verdict.HANG),
        (InternalServerError("internal error", grpc.StatusCode.INTERNAL), Verdict.CRASH),
        (UnavailableError("gone", grpc.StatusCode.UNAVAILABLE), Verdict.CRASH),
    ],
)
def test_failure_is_that_of_the_one_question_that_fails(error: ServiceError, failure: Verdict):
    client, questions, told = FakeClient(), make_questions(260), list[None]()

    def count() -> None:
        told.append(None)
        if len(told) == 256:  # the first call is answered: the next one fails, and then its first question
            client.fail_next(error, times=2)

    replies = ask_server(client, questions, count)
    assert [replies[question.id].record is None for question in questions[255:]] == [False, True, False, False, False]
    assert replies[questions[256].id].failure is failure
