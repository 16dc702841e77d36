"""The methods of the gRPC service `inference.GRPCInferenceService`, which the Open Inference Protocol defines."""

from collections.abc import Callable
from functools import partial
from importlib.metadata import version
from typing import Any, TypeAlias

from tensor_reshape.server.oip.inferences import Inference, InferSession, find_work
from tensor_reshape.server.oip.messages import InferMessage, Respond, encode, find_class, find_path
from tensor_reshape.server.oip.models import MODELS, VERSION, Count, Statistics, TensorSpec, find_model
from tensor_reshape.server.service.method_tables import MethodTable, StreamMethod, UnaryMethod, build_light_method

EXTENSIONS = ("model_configuration", "model_repository(index)", "parameters", "statistics")
"""The extensions of Triton that are available, with their names in Triton."""

PLATFORM = "tensor_reshape"
"""The platform of all models.

This is a new name, because no name in the protocol's list of platforms is correct for this server.
"""

Fields: TypeAlias = dict[str, Any]
"""The fields of a message by name, as the constructor of the message class accepts them."""

# The version of the package is read only once. It is stored in a file, and the receiving thread must not wait for
# files.
_SERVER_VERSION = version("tensor-reshape")


def describe_server(_: InferMessage) -> InferMessage:
    """Returns the response to a ServerMetadata request."""
    return find_class("ServerMetadataResponse")(name="tensor-reshape", version=_SERVER_VERSION, extensions=EXTENSIONS)


def describe_model(request: InferMessage) -> InferMessage:
    """Returns the response to a ModelMetadata request.

    Raises:
        NotFoundError: the reason is MODEL_UNKNOWN.
    """
    model = find_model(request.name, request.version)
    return find_class("ModelMetadataResponse")(
        name=model.name,
        versions=[VERSION],
        platform=PLATFORM,
        inputs=list(map(_describe_tensor, model.inputs)),
        outputs=[_describe_tensor(model.output)],
        properties=model.properties,
    )


def configure_model(request: InferMessage) -> InferMessage:
    """Returns the response to a ModelConfig request.

    Raises:
        NotFoundError: the reason is MODEL_UNKNOWN.
    """
    model = find_model(request.name, request.version)
    parameter = find_class("ModelParameter")
    config = {
        "name": model.name,
        "platform": PLATFORM,
        "backend": PLATFORM,
        "input": [{**_configure_tensor(spec), "optional": spec is not model.first} for spec in model.inputs],
        "output": [_configure_tensor(model.output)],
        "parameters": {name: parameter(string_value=text) for name, text in model.properties.items()},
    }
    return find_class("ModelConfigResponse")(config=config)


def list_models(_: InferMessage) -> InferMessage:
    """Returns the response to a RepositoryIndex request.

    The server has one repository, and all its models are ready.
    """
    kind = find_class("RepositoryIndexResponse")
    return kind(models=[{"name": name, "version": VERSION, "state": "READY"} for name in MODELS])


def is_model_ready(request: InferMessage) -> bool:
    """Whether the model of a ModelReady request is ready. An unknown model is not ready, as in Triton."""
    return request.name in MODELS and request.version in {"", VERSION}


def describe_statistics(statistics: Statistics, request: InferMessage) -> InferMessage:
    """Returns the response to a ModelStatistics request for one model or for all models.

    Raises:
        NotFoundError: the reason is MODEL_UNKNOWN.
    """
    names = [find_model(request.name, request.version).name] if request.name else MODELS
    stats = [_describe_count(name, statistics.read(name)) for name in names]
    return find_class("ModelStatisticsResponse")(model_stats=stats)


def _describe_count(name: str, count: Count) -> Fields:
    success = {"count": count.successes, "ns": count.success_ns}
    # The server does not measure the phases of a request separately, but perf_analyzer demands the same count for each
    # phase.
    unmeasured = {"count": count.successes, "ns": 0}
    return {
        "name": name,
        "version": VERSION,
        "last_inference": count.last_ms,
        "inference_count": count.successes,
        "execution_count": count.successes,
        "inference_stats": {
            "success": success,
            "fail": {"count": count.failures, "ns": count.failure_ns},
            "queue": unmeasured,
            "compute_input": unmeasured,
            "compute_infer": success,
            "compute_output": unmeasured,
        },
    }


def _describe_tensor(spec: TensorSpec) -> Fields:
    return {"name": spec.name, "datatype": spec.datatype, "shape": [spec.size]}


def _configure_tensor(spec: TensorSpec) -> Fields:
    return {"name": spec.name, "data_type": f"TYPE_{spec.datatype}", "dims": [spec.size]}


_STREAM = find_path("ModelStreamInfer")


def list_responds(statistics: Statistics) -> dict[str, Respond]:
    """Returns a dict with the names of the methods that describe the server and its models, and their functions."""
    return {
        "ServerMetadata": describe_server,
        "ModelMetadata": describe_model,
        "ModelConfig": configure_model,
        "ModelStatistics": partial(describe_statistics, statistics),
        "RepositoryIndex": list_models,
    }


def build_methods(inference: Inference) -> MethodTable:
    """Returns all methods of the service except the methods that `build_probes` returns."""
    infer = UnaryMethod(find_path("ModelInfer"), inference.respond, inference.respond_light, find_work)
    stream = StreamMethod(_STREAM, lambda _hold: InferSession(_STREAM, inference), find_work)
    responds = list_responds(inference.statistics).items()
    others = [build_light_method(find_path(name), encode(name, respond)) for name, respond in responds]
    return MethodTable((infer, *others), (stream,))


def build_probes(is_ready: Callable[[], bool]) -> dict[str, Callable[[bytes], bytes]]:
    """Returns the methods that orchestrators probe.

    The result maps the path of each method to a function that converts request bytes to response bytes.

    Serve these methods with a separate engine. A server without free memory or concurrency slots is still alive, but an
    orchestrator would restart the server if its probes got no response.

    Args:
        is_ready: a function that returns whether this server accepts calls and is not about to stop.
    """
    ready, model_ready = find_class("ServerReadyResponse"), find_class("ModelReadyResponse")
    live = find_class("ServerLiveResponse")(live=True)
    responds: dict[str, Respond] = {
        "ServerLive": lambda _: live,
        "ServerReady": lambda _: ready(ready=is_ready()),
        "ModelReady": lambda request: model_ready(ready=is_model_ready(request)),
    }
    return {find_path(name): encode(name, respond) for name, respond in responds.items()}
