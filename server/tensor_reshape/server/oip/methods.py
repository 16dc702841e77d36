"""`inference.GRPCInferenceService`: its methods, as `calls` serves them; see `service.methods`."""

from collections.abc import Callable
from functools import partial

from tensor_reshape.rules.limits import Limits
from tensor_reshape.server.oip import metadata
from tensor_reshape.server.oip.inferences import Inference, InferSession
from tensor_reshape.server.oip.messages import find_class, find_path
from tensor_reshape.server.oip.region_methods import build_region_methods
from tensor_reshape.server.oip.shared_memory import SharedMemory
from tensor_reshape.server.service.methods import Method, MethodTable, ReshapeService, StreamMethod
from tensor_reshape.wire.fields import check_header_size, parse_message

_STREAM = find_path("ModelStreamInfer")


def build_methods(
    service: ReshapeService, limits: Limits, is_ready: Callable[[], bool], memory: SharedMemory
) -> MethodTable:
    """Returns the methods.

    Args:
        service: what answers.
        limits: what requests and answers may be.
        is_ready: whether this server takes calls, and will in a moment.
        memory: what is shared with callers.
    """
    inference = Inference(service, memory, limits)
    infer = Method(find_path("ModelInfer"), inference.answer, inference.answer_light)
    stream = StreamMethod(_STREAM, lambda _hold: InferSession(_STREAM, inference))
    return MethodTable((infer, *_build_others(inference, memory, is_ready), *build_region_methods(memory)), (stream,))


def _build_others(inference: Inference, memory: SharedMemory, is_ready: Callable[[], bool]) -> tuple[Method, ...]:
    ready, model_ready = find_class("ServerReadyResponse"), find_class("ModelReadyResponse")
    live = find_class("ServerLiveResponse")(live=True)
    return (
        build_method("ServerLive", lambda _: live),
        build_method("ServerReady", lambda _: ready(ready=is_ready())),
        build_method("ModelReady", lambda request: model_ready(ready=metadata.is_model_ready(request))),
        build_method("ServerMetadata", partial(metadata.describe_server, shares_memory=memory.is_enabled)),
        build_method("ModelMetadata", metadata.describe_model),
        build_method("ModelConfig", metadata.configure_model),
        build_method("ModelStatistics", partial(metadata.tell_statistics, inference.statistics)),
        build_method("RepositoryIndex", metadata.list_models),
    )


def build_method(name: str, respond: metadata.Respond) -> Method:
    """Returns a method whose answers are short, and so made where the request is received."""
    kind = find_class(f"{name}Request")

    def answer_light(raw: bytes) -> bytes:
        check_header_size(len(raw))
        return bytes(respond(parse_message(kind, raw)).SerializeToString())

    return Method(find_path(name), lambda raw, _is_over: answer_light(raw), answer_light)
