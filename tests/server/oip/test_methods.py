"""The methods, as calls are served by them."""

import pytest

from inference_requests import SIX, build_request, read_response
from tensor_reshape.rules.errors import InvalidRequestError, LimitError, Reason
from tensor_reshape.rules.limits import DEFAULT_LIMITS, MAX_HEADER_BYTES
from tensor_reshape.server.oip.messages import SERVICE, InferMessage, find_class, find_path
from tensor_reshape.server.oip.methods import build_methods, build_probes
from tensor_reshape.server.oip.shared_memory import SharedMemory
from tensor_reshape.server.service.methods import Method, MethodTable, ReshapeService


def build() -> MethodTable:
    return build_methods(ReshapeService(DEFAULT_LIMITS), DEFAULT_LIMITS, SharedMemory(None))


def find(name: str, table: MethodTable) -> Method:
    return next(method for method in table.unary if method.name == find_path(name))


def ask(method: str, table: MethodTable, **fields: object) -> InferMessage:
    request: InferMessage = find_class(f"{method}Request")(**fields)
    answer = find(method, table).answer_light(request.SerializeToString())
    return find_class(f"{method}Response").FromString(answer or b"")


def probe(method: str, *, is_ready: bool = True, **fields: object) -> InferMessage:
    request: InferMessage = find_class(f"{method}Request")(**fields)
    answer = build_probes(lambda: is_ready)[find_path(method)](request.SerializeToString())
    return find_class(f"{method}Response").FromString(answer)


def test_the_methods_of_the_protocol_are_served():
    table = build()
    protocol = {"ServerMetadata", "ModelMetadata", "ModelInfer"}
    extensions = {"ModelConfig", "ModelStatistics", "RepositoryIndex"}
    served = {method.name for method in table.unary} | {stream.name for stream in table.streams}
    assert {find_path(name) for name in {*protocol, *extensions, "ModelStreamInfer"}} <= served
    assert served <= {find_path(method.name) for method in SERVICE.methods}


def test_what_is_probed_is_no_method_that_is_admitted():
    probed = {find_path(name) for name in ("ServerLive", "ServerReady", "ModelReady")}
    assert set(build_probes(lambda: True)) == probed
    assert probed.isdisjoint(method.name for method in build().unary)


def test_a_model_is_asked_on_either_thread():
    method, raw = find("ModelInfer", build()), build_request().SerializeToString()
    answers = [method.answer_light(raw), method.answer(raw, lambda: False)]
    assert [list(read_response(answer or b"").raw_output_contents) for answer in answers] == [[SIX], [SIX]]


@pytest.mark.parametrize("is_ready", [True, False])
def test_a_server_that_drains_is_live_and_not_ready(is_ready: bool):
    assert probe("ServerLive", is_ready=is_ready).live
    assert probe("ServerReady", is_ready=is_ready).ready is is_ready


def test_a_model_is_ready_or_not_here():
    assert [probe("ModelReady", name=name).ready for name in ("reshape", "resnet")] == [True, False]


def test_what_was_asked_is_counted():
    table = build()
    find("ModelInfer", table).answer_light(build_request().SerializeToString())
    (stats,) = ask("ModelStatistics", table, name="reshape").model_stats
    assert stats.inference_count == 1


def test_bytes_that_are_no_message_are_refused():
    with pytest.raises(InvalidRequestError) as caught:
        find("ServerMetadata", build()).answer(b"\xff", lambda: False)
    assert caught.value.reason is Reason.MESSAGE_MALFORMED


def test_a_long_question_about_the_server_is_refused_unread():
    with pytest.raises(LimitError) as caught:
        find("ServerMetadata", build()).answer_light(bytes(MAX_HEADER_BYTES + 1))
    assert caught.value.reason is Reason.HEAD_TOO_LARGE


def test_a_stream_answers_by_the_same_models():
    (stream,) = build().streams
    assert stream.name == find_path("ModelStreamInfer")
    (answer,) = stream.open(lambda _size: None).receive(build_request().SerializeToString())
    response: InferMessage = find_class("ModelStreamInferResponse").FromString(answer)
    assert list(response.infer_response.raw_output_contents) == [SIX]
