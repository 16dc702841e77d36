"""MLServer with a model that reshapes, in the server's own process: faster than its worker processes for this work."""

import asyncio
import logging
import socket

from mlserver import MLModel, MLServer, ModelSettings, Settings
from mlserver.codecs import NumpyCodec
from mlserver.types import InferenceRequest, InferenceResponse


async def reshape(model: MLModel, payload: InferenceRequest) -> InferenceResponse:
    """Reshapes with numpy."""
    data, shape = payload.inputs
    array = NumpyCodec.decode_input(data).reshape(NumpyCodec.decode_input(shape).ravel())
    return InferenceResponse(model_name=model.name, outputs=[NumpyCodec.encode_output("output", array)])


Reshape = type("Reshape", (MLModel,), {"predict": reshape})


def serve(address: str) -> None:
    """Serves for ever."""
    host, _, port = address.rpartition(":")
    with socket.socket() as probe:
        probe.bind((host, 0))
        http_port = probe.getsockname()[1]
    settings = Settings(
        debug=False,
        host=host,
        grpc_port=int(port),
        http_port=http_port,
        metrics_endpoint=None,
        parallel_workers=0,
        grpc_max_message_length=-1,
    )
    logging.getLogger("uvicorn.access").setLevel(logging.WARNING)
    asyncio.run(MLServer(settings).start([ModelSettings(name="reshape", implementation=Reshape)]))
