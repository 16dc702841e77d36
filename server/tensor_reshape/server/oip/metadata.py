"""What the server and its models say of themselves.

Law: all follows from the table of models.
"""

from collections.abc import Iterator
from importlib.metadata import version

from tensor_reshape.server.oip.messages import InferMessage, find_class
from tensor_reshape.server.oip.models import MODELS, VERSION, TensorSpec, find_model
from tensor_reshape.server.oip.statistics import Count, Statistics

EXTENSIONS = ("model_configuration", "model_repository(index)", "parameters", "statistics")
"""Those of Triton's that are served, by Triton's names."""

PLATFORM = "tensor_reshape"
"""The protocol has a list of names, none of which would be true."""

_ANY_SIZE = -1


def describe_server(_: InferMessage) -> InferMessage:
    """Answers ServerMetadata."""
    return find_class("ServerMetadataResponse")(
        name="tensor-reshape", version=version("tensor-reshape"), extensions=EXTENSIONS
    )


def describe_model(request: InferMessage) -> InferMessage:
    """Answers ModelMetadata.

    Raises:
        NotFoundError: MODEL_UNKNOWN.
    """
    model = find_model(request.name, request.version)
    return find_class("ModelMetadataResponse")(
        name=model.name,
        versions=[VERSION],
        platform=PLATFORM,
        inputs=list(map(_describe_tensor, (model.first, model.target))),
        outputs=[_describe_tensor(model.output)],
        properties=model.properties,
    )


def configure_model(request: InferMessage) -> InferMessage:
    """Answers ModelConfig.

    Raises:
        NotFoundError: MODEL_UNKNOWN.
    """
    model = find_model(request.name, request.version)
    response: InferMessage = find_class("ModelConfigResponse")()
    config = response.config
    config.name, config.platform, config.backend = model.name, PLATFORM, PLATFORM
    for spec in (model.first, model.target):
        config.input.add(name=spec.name, data_type=f"TYPE_{spec.datatype}", dims=[_ANY_SIZE])
    config.input[-1].optional = True
    config.output.add(name=model.output.name, data_type=f"TYPE_{model.output.datatype}", dims=[_ANY_SIZE])
    for name, text in model.properties.items():
        config.parameters[name].string_value = text
    return response


def list_models(_: InferMessage) -> InferMessage:
    """Answers RepositoryIndex: there is one repository, and all that is in it is ready."""
    kind = find_class("RepositoryIndexResponse")
    return kind(models=[{"name": name, "version": VERSION, "state": "READY"} for name in MODELS])


def is_model_ready(request: InferMessage) -> bool:
    """Answers ModelReady: of a model that is not here, Triton says that it is not ready."""
    return request.name in MODELS and request.version in {"", VERSION}


def tell_statistics(statistics: Statistics, request: InferMessage) -> InferMessage:
    """Answers ModelStatistics: of one model, or of all.

    Raises:
        NotFoundError: MODEL_UNKNOWN.
    """
    response: InferMessage = find_class("ModelStatisticsResponse")()
    for name in _choose_models(request):
        count = statistics.read(name)
        told = response.model_stats.add(name=name, version=VERSION, last_inference=count.last_ms)
        told.inference_count = told.execution_count = count.successes
        _tell_durations(told.inference_stats, count)
    return response


def _choose_models(request: InferMessage) -> Iterator[str]:
    if request.name:
        yield find_model(request.name, request.version).name
    else:
        yield from MODELS


def _tell_durations(stats: InferMessage, count: Count) -> None:
    stats.success.count, stats.success.ns = count.successes, count.success_ns
    stats.fail.count, stats.fail.ns = count.failures, count.failure_ns
    # Of what is answered at once, all is this. What a call waits for is not counted: see `calls.observers`.
    stats.compute_infer.CopyFrom(stats.success)


def _describe_tensor(spec: TensorSpec) -> InferMessage:
    return {"name": spec.name, "datatype": spec.datatype, "shape": [_ANY_SIZE]}
