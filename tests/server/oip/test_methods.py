"""The methods as they serve calls. Requests that follow the metadata of the models succeed."""

from itertools import product

import pytest

from inference_requests import SIX, build_request, read_response
from tensor_reshape.rules.errors import InvalidRequestError, LimitError, NotFoundError, Reason
from tensor_reshape.rules.limits import DEFAULT_LIMITS, MAX_HEADER_BYTES
from tensor_reshape.server.oip import methods
from tensor_reshape.server.oip.datatypes import DATATYPES
from tensor_reshape.server.oip.inferences import Inference
from tensor_reshape.server.oip.messages import SERVICE, InferMessage, find_class, find_path
from tensor_reshape.server.oip.methods import build_methods, build_probes
from tensor_reshape.server.oip.models import MODELS, Statistics
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


def name(model: str, version: str = "") -> InferMessage:
    return find_class("ModelMetadataRequest")(name=model, version=version)


def test_requests_built_from_inference_model_metadata_succeed():
    inference = Inference(ReshapeService(DEFAULT_LIMITS), DEFAULT_LIMITS)
    for model in MODELS:
        described = methods.describe_model(name(model))
        types = [described.properties[f"inputs.{tensor.name}.datatypes"].split(", ") for tensor in described.inputs]
        for datatypes in product(*types):
            request = find_class("ModelInferRequest")(
                model_name=described.name,
                model_version=described.versions[0],
                inputs=[
                    {"name": tensor.name, "datatype": datatype, "shape": [abs(size) for size in tensor.shape]}
                    for tensor, datatype in zip(described.inputs, datatypes, strict=True)
                ],
                raw_input_contents=[(1).to_bytes(DATATYPES[each].count_bytes(1), "little") for each in datatypes],
            )
            response = read_response(inference.respond(request.SerializeToString()))
            assert response.outputs[0].name == described.outputs[0].name, (model, datatypes)


def test_inference_model_configuration_and_metadata_agree():
    for model in MODELS:
        described = methods.describe_model(name(model))
        config = methods.configure_model(name(model)).config
        types = config.DESCRIPTOR.file.enum_types_by_name["DataType"].values_by_number
        assert [(tensor.name, types[tensor.data_type].name, tensor.optional) for tensor in config.input] == [
            (tensor.name, f"TYPE_{tensor.datatype}", index > 0) for index, tensor in enumerate(described.inputs)
        ], model
        assert {key: value.string_value for key, value in config.parameters.items()} == dict(described.properties)


def test_inference_model_metadata_name_each_input_with_its_size():
    for model, first in {"reshape": "data", "infer_shape": "data_shape"}.items():
        described = methods.describe_model(name(model))
        inputs = [(tensor.name, list(tensor.shape)) for tensor in described.inputs]
        assert inputs == [(first, [-1]), ("shape", [-1]), ("special_zero", [1])]


def test_unknown_inference_model_is_neither_described_nor_ready():
    for unknown in (name("resnet"), name("resnet", "1"), name("reshape", "2")):
        for describe in (methods.describe_model, methods.configure_model):
            with pytest.raises(NotFoundError):
                describe(unknown)
        assert not methods.is_model_ready(unknown)
    assert all(methods.is_model_ready(name("reshape", version)) for version in ("", "1"))


def test_inference_server_metadata_has_name_version_and_extensions():
    request = find_class("ServerMetadataRequest")()
    described = methods.describe_server(request)
    assert described.name == "tensor-reshape"
    assert described.version
    assert list(described.extensions) == list(methods.EXTENSIONS)


def test_inference_repository_index_lists_every_model():
    index = methods.list_models(find_class("RepositoryIndexRequest")())
    assert [(model.name, model.version, model.state) for model in index.models] == [
        (model, "1", "READY") for model in MODELS
    ]


def test_inference_statistics_cover_one_model_or_all():
    statistics = Statistics()
    statistics.count("reshape", 0)
    (stats,) = methods.describe_statistics(statistics, name("reshape")).model_stats
    assert (stats.name, stats.inference_count, stats.execution_count) == ("reshape", 1, 1)
    assert stats.inference_stats.success.ns > 0
    assert [stats.name for stats in methods.describe_statistics(statistics, name("")).model_stats] == list(MODELS)


def test_inference_statistics_count_each_part_of_a_successful_request():
    statistics = Statistics()
    statistics.count("reshape", 0)
    statistics.count("reshape", 0, is_success=False)
    (stats,) = methods.describe_statistics(statistics, name("reshape")).model_stats
    parts = stats.inference_stats
    assert [parts.success.count, parts.fail.count] == [1, 1]
    assert [parts.queue.count, parts.compute_input.count, parts.compute_infer.count, parts.compute_output.count] == [
        1
    ] * 4


def test_inference_statistics_durations_add_up_to_the_whole_request():
    statistics = Statistics()
    statistics.count("reshape", 0)
    (stats,) = methods.describe_statistics(statistics, name("reshape")).model_stats
    parts = stats.inference_stats
    durations = (parts.queue.ns, parts.compute_input.ns, parts.compute_infer.ns, parts.compute_output.ns)
    assert sum(durations) == parts.success.ns > 0
