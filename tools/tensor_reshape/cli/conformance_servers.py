"""A server as an implementation that the conformance kit asks, through the SDK.

Laws: a call without an answer in time is a hang, and one that ends otherwise without an answer or a refusal a crash, of
the question that alone makes it end so. A server that was never there is the caller's mistake, and no answer.
"""

import json
from collections.abc import Callable, Mapping, Sequence

from tensor_reshape.cli.batches import answer_records
from tensor_reshape.client import CallTimeoutError, Client, ResponseError, ServiceError, UnavailableError
from tensor_reshape.conformance.cases import Question
from tensor_reshape.conformance.programs import Reply
from tensor_reshape.conformance.verdicts import Verdict

_CALL_QUESTIONS = 256


def ask_server(client: Client, questions: Sequence[Question], told: Callable[[], object] = bool) -> Mapping[str, Reply]:
    """Returns a reply to each question, by its id.

    Raises:
        UnavailableError: there is no server.
    """
    client.wait_until_ready()
    replies = dict[str, Reply]()
    for start in range(0, len(questions), _CALL_QUESTIONS):
        part = questions[start : start + _CALL_QUESTIONS]
        try:
            replies |= _ask(client, part)
        except (ServiceError, ResponseError):
            for question in part:  # alone, it is known which one it is
                replies[question.id] = _ask_alone(client, question)
        for _ in part:
            told()
    return replies


def _ask(client: Client, questions: Sequence[Question]) -> dict[str, Reply]:
    lines = (json.dumps(question.asked).encode() for question in questions)
    return {record["id"]: Reply(record) for record in answer_records(lines, client)}


def _ask_alone(client: Client, question: Question) -> Reply:
    try:
        return _ask(client, [question])[question.id]
    except CallTimeoutError as error:
        return Reply(None, Verdict.HANG, str(error))
    except ResponseError as error:
        return Reply(None, Verdict.GARBAGE, str(error))
    except UnavailableError:
        client.wait_until_ready()  # whoever restarts it has the time of a call; else it is gone, and so is the run
        return Reply(None, Verdict.CRASH, "the server went away")
    except ServiceError as error:
        return Reply(None, Verdict.CRASH, str(error))
