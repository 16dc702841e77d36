"""The metadata of the server and its models, derived from the table of models."""

from importlib.metadata import version
from typing import Any, TypeAlias

from tensor_reshape.server.oip.messages import InferMessage, find_class
from tensor_reshape.server.oip.models import MODELS, VERSION, TensorSpec, find_model
from tensor_reshape.server.oip.statistics import Count, Statistics

EXTENSIONS = ("model_configuration", "model_repository(index)", "parameters", "statistics")
"""Triton's extensions that are always available, by Triton's names."""

SHARED_MEMORY = "system_shared_memory"
"""The extension that is available if the operator configures a directory."""

PLATFORM = "tensor_reshape"
"""No name in the protocol's list of platforms would be correct."""

Fields: TypeAlias = dict[str, Any]
"""The fields of a message, as its class accepts them."""

_ANY_SIZE = -1
# Once: it is read from a file, and answers are made where all calls are received.
_SERVER_VERSION = version("tensor-reshape")


def describe_server(_: InferMessage, *, shares_memory: bool) -> InferMessage:
    """Responds to ServerMetadata."""
    extensions = [*EXTENSIONS, *[SHARED_MEMORY] * shares_memory]
    return find_class("ServerMetadataResponse")(name="tensor-reshape", version=_SERVER_VERSION, extensions=extensions)


def describe_model(request: InferMessage) -> InferMessage:
    """Responds to ModelMetadata.

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
    """Responds to ModelConfig.

    Raises:
        NotFoundError: MODEL_UNKNOWN.
    """
    model = find_model(request.name, request.version)
    parameter = find_class("ModelParameter")
    config = {
        "name": model.name,
        "platform": PLATFORM,
        "backend": PLATFORM,
        "input": [_configure_tensor(model.first), {**_configure_tensor(model.target), "optional": True}],
        "output": [_configure_tensor(model.output)],
        "parameters": {name: parameter(string_value=text) for name, text in model.properties.items()},
    }
    return find_class("ModelConfigResponse")(config=config)


def list_models(_: InferMessage) -> InferMessage:
    """Responds to RepositoryIndex. There is one repository, and all of its models are ready."""
    kind = find_class("RepositoryIndexResponse")
    return kind(models=[{"name": name, "version": VERSION, "state": "READY"} for name in MODELS])


def is_model_ready(request: InferMessage) -> bool:
    """Responds to ModelReady. An unknown model is not ready, as in Triton."""
    return request.name in MODELS and request.version in {"", VERSION}


def tell_statistics(statistics: Statistics, request: InferMessage) -> InferMessage:
    """Responds to ModelStatistics, for one model or for all.

    Raises:
        NotFoundError: MODEL_UNKNOWN.
    """
    names = [find_model(request.name, request.version).name] if request.name else MODELS
    stats = [_tell_count(name, statistics.read(name)) for name in names]
    return find_class("ModelStatisticsResponse")(model_stats=stats)


def _tell_count(name: str, count: Count) -> Fields:
    success = {"count": count.successes, "ns": count.success_ns}
    return {
        "name": name,
        "version": VERSION,
        "last_inference": count.last_ms,
        "inference_count": count.successes,
        "execution_count": count.successes,
        "inference_stats": {
            "success": success,
            "fail": {"count": count.failures, "ns": count.failure_ns},
            # Of what is answered at once, all is this. What a call waits for before, no model knows.
            "compute_infer": success,
        },
    }


def _describe_tensor(spec: TensorSpec) -> Fields:
    return {"name": spec.name, "datatype": spec.datatype, "shape": [_ANY_SIZE]}


def _configure_tensor(spec: TensorSpec) -> Fields:
    return {"name": spec.name, "data_type": f"TYPE_{spec.datatype}", "dims": [_ANY_SIZE]}
