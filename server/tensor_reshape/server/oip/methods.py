"""The table of the methods of `inference.GRPCInferenceService`."""

from collections.abc import Callable
from functools import partial

from tensor_reshape.server.oip import metadata
from tensor_reshape.server.oip.inferences import Inference, InferSession, find_work
from tensor_reshape.server.oip.messages import Respond, encode, find_class, find_path
from tensor_reshape.server.service.method_tables import Method, MethodTable, StreamMethod, build_light_method

_STREAM = find_path("ModelStreamInfer")


def build_methods(inference: Inference) -> MethodTable:
    """Returns all methods of the service except the methods that `build_probes` returns."""
    infer = Method(find_path("ModelInfer"), inference.respond, inference.respond_light, find_work)
    stream = StreamMethod(_STREAM, lambda _hold: InferSession(_STREAM, inference), find_work)
    return MethodTable((infer, *_build_others(inference)), (stream,))


def build_probes(is_ready: Callable[[], bool]) -> dict[str, Callable[[bytes], bytes]]:
    """Returns the methods that orchestrators probe.

    The result maps paths to functions from request bytes to response bytes.

    Serve these methods with a separate engine. A server without free memory or concurrency slots is still alive, but an
    orchestrator would restart it if a probe got no response.

    Args:
        is_ready: a function that returns whether this server accepts calls and will continue to accept calls.
    """
    ready, model_ready = find_class("ServerReadyResponse"), find_class("ModelReadyResponse")
    live = find_class("ServerLiveResponse")(live=True)
    responds: dict[str, Respond] = {
        "ServerLive": lambda _: live,
        "ServerReady": lambda _: ready(ready=is_ready()),
        "ModelReady": lambda request: model_ready(ready=metadata.is_model_ready(request)),
    }
    return {find_path(name): encode(name, respond) for name, respond in responds.items()}


def _build_others(inference: Inference) -> tuple[Method, ...]:
    return (
        _build_method("ServerMetadata", metadata.describe_server),
        _build_method("ModelMetadata", metadata.describe_model),
        _build_method("ModelConfig", metadata.configure_model),
        _build_method("ModelStatistics", partial(metadata.describe_statistics, inference.statistics)),
        _build_method("RepositoryIndex", metadata.list_models),
    )


def _build_method(name: str, respond: Respond) -> Method:
    return build_light_method(find_path(name), encode(name, respond))
