"""Triton, started and fed by PyTriton, with a function that reshapes."""

import socket
from typing import Any

import numpy as np
from pytriton.model_config import ModelConfig, Tensor
from pytriton.triton import Triton, TritonConfig


def reshape(requests: list[Any]) -> list[dict[str, Any]]:
    """Reshapes with numpy."""
    return [{"output": request["data"].reshape(request["shape"])} for request in requests]


def serve(address: str) -> None:
    """Serves for ever."""
    host, _, port = address.rpartition(":")
    # Triton opens three ports; two sockets at once find two that differ.
    with socket.socket() as http, socket.socket() as metrics:
        http.bind((host, 0))
        metrics.bind((host, 0))
        ports = {"http_port": http.getsockname()[1], "metrics_port": metrics.getsockname()[1]}
    inputs = [
        Tensor(name=name, dtype=dtype, shape=(-1,)) for name, dtype in (("data", np.float32), ("shape", np.int64))
    ]
    outputs = [Tensor(name="output", dtype=np.float32, shape=(-1, -1))]
    with Triton(config=TritonConfig(grpc_address=host, grpc_port=int(port), http_address=host, **ports)) as triton:
        triton.bind("reshape", reshape, inputs=inputs, outputs=outputs, config=ModelConfig(batching=False))
        triton.serve()
