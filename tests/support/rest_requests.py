"""Requests of the Open Inference Protocol over REST."""

from http_calls import Reply, request
from tensor_reshape.server.http.replies import LENGTH_HEADER


def send_infer(address: str, body: bytes, payload: bytes | None = None, model: str = "reshape") -> Reply:
    """Sends an inference request, whose JSON is followed by `payload`."""
    headers = {} if payload is None else {LENGTH_HEADER: str(len(body))}
    return request(address, "POST", f"/v2/models/{model}/infer", body + (payload or b""), headers)
