"""What is said of the models is what they do: requests written by the metadata alone are answered."""

import pytest

from inference_requests import read_response
from tensor_reshape.rules.errors import NotFoundError
from tensor_reshape.rules.limits import DEFAULT_LIMITS
from tensor_reshape.server.oip import metadata
from tensor_reshape.server.oip.datatypes import DATATYPES
from tensor_reshape.server.oip.inferences import Inference
from tensor_reshape.server.oip.messages import InferMessage, Respond, find_class
from tensor_reshape.server.oip.models import INFER_SHAPE, MODELS
from tensor_reshape.server.oip.shared_memory import SharedMemory
from tensor_reshape.server.oip.statistics import Statistics
from tensor_reshape.server.service.methods import ReshapeService


def name(model: str, kind: str = "ModelMetadataRequest") -> InferMessage:
    return find_class(kind)(name=model)


def list_described() -> list[tuple[str, str, str]]:
    """Returns the model, the type of its first input, and that of its target, of each request that is described."""
    described = []
    for model in MODELS:
        properties = metadata.describe_model(name(model)).properties
        first = "data_shape" if model == INFER_SHAPE else "data"
        described += [
            (model, datatype, target)
            for datatype in properties[f"inputs.{first}.datatypes"].split(", ")
            for target in properties["inputs.shape.datatypes"].split(", ")
        ]
    return described


def test_what_is_described_is_taken():
    inference = Inference(ReshapeService(DEFAULT_LIMITS), SharedMemory(None), DEFAULT_LIMITS)
    for model, datatype, target in list_described():
        described = metadata.describe_model(name(model))
        size = DATATYPES[datatype].count_bytes(1)
        request = find_class("ModelInferRequest")(
            model_name=described.name,
            model_version=described.versions[0],
            inputs=[
                {"name": described.inputs[0].name, "datatype": datatype, "shape": [1]},
                {"name": described.inputs[1].name, "datatype": target, "shape": [1]},
            ],
            raw_input_contents=[
                (1).to_bytes(size, "little"),
                (1).to_bytes(DATATYPES[target].count_bytes(1), "little"),
            ],
            parameters={"special_zero": find_class("InferParameter")(bool_param=False)},
        )
        response = read_response(inference.answer(request.SerializeToString()))
        assert response.outputs[0].name == described.outputs[0].name


@pytest.mark.parametrize("model", MODELS)
def test_configuration_and_metadata_agree(model: str):
    described = metadata.describe_model(name(model))
    config = metadata.configure_model(name(model)).config
    types = config.DESCRIPTOR.file.enum_types_by_name["DataType"]
    assert [tensor.name for tensor in config.input] == [tensor.name for tensor in described.inputs]
    assert [types.values_by_number[tensor.data_type].name for tensor in config.input] == [
        f"TYPE_{tensor.datatype}" for tensor in described.inputs
    ]
    assert {key: value.string_value for key, value in config.parameters.items()} == dict(described.properties)
    assert [tensor.optional for tensor in config.input] == [False, True]


@pytest.mark.parametrize("describe", [metadata.describe_model, metadata.configure_model])
def test_a_model_that_is_not_here_is_not_described(describe: Respond):
    with pytest.raises(NotFoundError):
        describe(name("resnet"))


def test_a_model_is_ready_where_it_is_here():
    assert [metadata.is_model_ready(name(model)) for model in ("reshape", "resnet")] == [True, False]


def test_the_server_tells_its_name_and_version():
    described = metadata.describe_server(find_class("ServerMetadataRequest")(), shares_memory=False)
    assert described.name == "tensor-reshape"
    assert described.version
    assert list(described.extensions) == list(metadata.EXTENSIONS)


def test_shared_memory_is_told_of_where_there_is_some():
    described = metadata.describe_server(find_class("ServerMetadataRequest")(), shares_memory=True)
    assert list(described.extensions) == [*metadata.EXTENSIONS, "system_shared_memory"]


def test_the_index_has_every_model():
    index = metadata.list_models(find_class("RepositoryIndexRequest")())
    assert [(model.name, model.version, model.state) for model in index.models] == [
        (model, "1", "READY") for model in MODELS
    ]


def test_statistics_are_of_one_model_or_of_all():
    statistics = Statistics()
    statistics.note_success("reshape", 0)
    told = metadata.tell_statistics(statistics, name("reshape"))
    assert [(stats.name, stats.inference_count, stats.execution_count) for stats in told.model_stats] == [
        ("reshape", 1, 1)
    ]
    assert told.model_stats[0].inference_stats.success.ns > 0
    assert [stats.name for stats in metadata.tell_statistics(statistics, name("")).model_stats] == list(MODELS)
