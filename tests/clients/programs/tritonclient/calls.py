"""Calls with tritonclient."""

import tritonclient.grpc as triton
from tritonclient.utils import InferenceServerException

from inference_calls import Json
from triton_requests import build_arguments, run, write_error, write_result


def ask(client: triton.InferenceServerClient, request: Json, seconds: float) -> Json:
    try:
        return write_result(client.infer(**build_arguments(request), client_timeout=seconds))
    except InferenceServerException as error:
        return write_error(error)


if __name__ == "__main__":
    run(ask)
