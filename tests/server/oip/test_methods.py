"""The methods as they serve calls."""

import pytest

from inference_requests import SIX, build_request, read_response
from tensor_reshape.rules.errors import InvalidRequestError, LimitError, Reason
from tensor_reshape.rules.limits import DEFAULT_LIMITS, MAX_HEADER_BYTES
from tensor_reshape.server.oip.inferences import Inference
from tensor_reshape.server.oip.messages import SERVICE, InferMessage, find_class, find_path
from tensor_reshape.server.oip.methods import build_methods, build_probes
from tensor_reshape.server.service.method_tables import MethodTable, UnaryMethod
from tensor_reshape.server.service.methods import ReshapeService

TABLE = build_methods(Inference(ReshapeService(DEFAULT_LIMITS), DEFAULT_LIMITS))


def find(name: str, table: MethodTable = TABLE) -> UnaryMethod:
    return next(method for method in table.unary if method.name == find_path(name))


def probe(method: str, *, is_ready: bool) -> InferMessage:
    answer = build_probes(lambda: is_ready)[find_path(method)](b"")
    return find_class(f"{method}Response").FromString(answer)


def test_inference_probes_are_served_separately_from_other_methods():
    names = {"ServerMetadata", "ModelMetadata", "ModelInfer", "ModelConfig", "ModelStatistics", "RepositoryIndex"}
    served = {method.name for method in TABLE.unary} | {stream.name for stream in TABLE.streams}
    assert {find_path(name) for name in {*names, "ModelStreamInfer"}} <= served
    assert served <= {find_path(method.name) for method in SERVICE.methods}
    probed = {find_path(name) for name in ("ServerLive", "ServerReady", "ModelReady")}
    assert set(build_probes(lambda: True)) == probed
    assert probed.isdisjoint(served)


def test_inference_request_is_counted_on_receiving_and_worker_threads():
    table = build_methods(Inference(ReshapeService(DEFAULT_LIMITS), DEFAULT_LIMITS))
    method, raw = find("ModelInfer", table), build_request().SerializeToString()
    answers = [method.respond_light(raw), method.respond(raw, lambda: False)]
    assert [list(read_response(answer or b"").raw_output_contents) for answer in answers] == [[SIX], [SIX]]
    question = find_class("ModelStatisticsRequest")(name="reshape").SerializeToString()
    told: InferMessage = find_class("ModelStatisticsResponse").FromString(
        find("ModelStatistics", table).respond_light(question) or b""
    )
    assert [stats.inference_count for stats in told.model_stats] == [2]


def test_draining_inference_server_is_live_but_not_ready():
    for is_ready in (True, False):
        assert probe("ServerLive", is_ready=is_ready).live
        assert probe("ServerReady", is_ready=is_ready).ready is is_ready


def test_malformed_or_oversized_inference_metadata_request_is_rejected():
    questions = [method for method in TABLE.unary if method.name != find_path("ModelInfer")]
    assert len(questions) == 5
    for method in questions:
        with pytest.raises(InvalidRequestError) as malformed:
            method.respond(b"\xff", lambda: False)
        with pytest.raises(LimitError) as long:
            method.respond(bytes(MAX_HEADER_BYTES + 1), lambda: False)
        assert (malformed.value.reason, long.value.reason) == (Reason.MESSAGE_MALFORMED, Reason.HEADER_TOO_LARGE)
