"""Calls with tritonclient over HTTP."""

import tritonclient.http as triton
from tritonclient.utils import InferenceServerException

from calls_of_python import print_answer
from inference_calls import Json, read_calls
from rest_calls import TIMEOUT, build_triton_arguments, describe_error, write_triton_result


def ask(address: str, request: Json, seconds: float) -> Json:
    try:
        with triton.InferenceServerClient(address, network_timeout=seconds) as client:
            return write_triton_result(client.infer(**build_triton_arguments(triton, request)))
    except InferenceServerException as error:
        return describe_error(int(error.status() or 0), error.message())
    except TimeoutError:
        return TIMEOUT


if __name__ == "__main__":
    address, calls = read_calls()
    for call in calls:
        print_answer(ask(address, call["requests"][0], call["seconds"]))
