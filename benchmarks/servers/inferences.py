"""Triton, started and fed by PyTriton, with a function that reshapes."""

import socket
import sys
from typing import Any

import numpy as np
from pytriton.model_config import ModelConfig, Tensor  # type: ignore[import-not-found, unused-ignore]
from pytriton.triton import Triton, TritonConfig  # type: ignore[import-not-found, unused-ignore]


def reshape(requests: list[Any]) -> list[dict[str, Any]]:
    """Reshapes with numpy."""
    return [{"output": request["data"].reshape(request["shape"])} for request in requests]


def main() -> None:
    """Serves on the address that is the argument."""
    host, _, port = sys.argv[1].rpartition(":")
    with socket.socket() as http, socket.socket() as metrics:
        http.bind((host, 0))
        metrics.bind((host, 0))
        ports = {"http_port": http.getsockname()[1], "metrics_port": metrics.getsockname()[1]}
    config = TritonConfig(grpc_address=host, grpc_port=int(port), http_address=host, **ports)
    with Triton(config=config) as triton:
        triton.bind(
            model_name="reshape",
            infer_func=reshape,
            inputs=[
                Tensor(name="data", dtype=np.float32, shape=(-1,)),
                Tensor(name="shape", dtype=np.int64, shape=(-1,)),
            ],
            outputs=[Tensor(name="output", dtype=np.float32, shape=(-1, -1))],
            config=ModelConfig(batching=False),
        )
        triton.serve()


if __name__ == "__main__":
    main()
