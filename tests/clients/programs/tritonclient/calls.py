"""Calls as programs make them that use tritonclient."""

import tritonclient.grpc as triton
from tritonclient.utils import InferenceServerException

from inference_calls import Json, print_answer, read_calls
from triton_requests import build_arguments, write_error, write_result


def ask(client: triton.InferenceServerClient, request: Json, seconds: float) -> Json:
    try:
        return write_result(client.infer(**build_arguments(request), client_timeout=seconds))
    except InferenceServerException as error:
        return write_error(error)


def main() -> None:
    address, calls = read_calls()
    with triton.InferenceServerClient(address) as client:
        for call in calls:
            print_answer(ask(client, call["requests"][0], call["seconds"]))


if __name__ == "__main__":
    main()
