"""A graph of two models with a reshape between them, in which all steps are calls of one protocol over REST.

Like an InferenceGraph of KServe, the program sends the outputs of each step as the inputs of the next step. The models
run in this process. Each is a small server of the Open Inference Protocol, as Triton and KServe serve models.

Run it with a running server: `tensor-reshape serve --http-listen 127.0.0.1:8080`, and then
`python examples/inference_graph.py [HOST:PORT]`.
"""

import http.client
import json
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

import numpy as np

Json = dict[str, Any]


class Step(NamedTuple):
    """One step of the graph: a model of a server, with the name of its input and its parameters."""

    address: str
    model: str
    input: str
    parameters: Json


def run_graph(steps: Sequence[Step], tensor: Json) -> Json:
    """Returns the output of the last step. The output of each step is the input of the next step."""
    for step in steps:
        given = {key: tensor[key] for key in ("datatype", "shape", "data")}
        body = {"inputs": [{"name": step.input, **given}], "parameters": step.parameters}
        tensor = post(step.address, f"/v2/models/{step.model}/infer", body)["outputs"][0]
        print(f"{step.model}: {given['shape']} -> {tensor['shape']}")
    return tensor


def post(address: str, path: str, body: Json) -> Json:
    """Returns the response of a server, or ends the program with its error."""
    connection = http.client.HTTPConnection(address, timeout=10)
    connection.request("POST", path, json.dumps(body), {"content-type": "application/json"})
    response = connection.getresponse()
    answer: Json = json.loads(response.read())
    connection.close()
    if "error" in answer:
        sys.exit(f"{path}: {answer['error']}")
    return answer


@contextmanager
def serve_model(name: str, weights: Sequence[Sequence[float]]) -> Iterator[str]:
    """Serves a model that multiplies its input with a matrix, and yields its address."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            request = json.loads(self.rfile.read(int(self.headers["content-length"])))
            given = request["inputs"][0]
            output = np.array(given["data"]).reshape(given["shape"]) @ np.array(weights)
            described = {"name": "y", "datatype": "FP32", "shape": output.shape, "data": output.ravel().tolist()}
            answer = json.dumps({"model_name": name, "outputs": [described]}).encode()
            self.send_response(200)
            self.send_header("content-length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_: object) -> None:
            """Prints nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"127.0.0.1:{server.server_port}"
        server.shutdown()


def main() -> None:
    """Runs the graph on four patches of two images."""
    reshape = sys.argv[1] if len(sys.argv) > 1 else "localhost:8080"
    with ExitStack() as stack:
        encoder = stack.enter_context(serve_model("encoder", [[1, 0], [0, 1], [1, 1]]))
        decoder = stack.enter_context(serve_model("decoder", [[1], [1], [1], [1]]))
        graph = [
            Step(encoder, "encoder", "x", {}),
            # The decoder needs a row for each image, but the encoder has returned a row for each of two patches.
            Step(reshape, "reshape", "data", {"shape": [-1, 4], "special_zero": False}),
            Step(decoder, "decoder", "x", {}),
        ]
        patches = {"datatype": "FP32", "shape": [4, 3], "data": list(range(12))}
        print(run_graph(graph, patches)["data"])


if __name__ == "__main__":
    main()
