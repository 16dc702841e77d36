"""Calls with tritonclient and asyncio."""

import asyncio

from tritonclient.grpc.aio import InferenceServerClient
from tritonclient.utils import InferenceServerException

from calls_of_python import answer_calls
from inference_calls import Json, read_calls
from triton_requests import build_arguments, write_error, write_result


async def ask(client: InferenceServerClient, request: Json, seconds: float) -> Json:
    try:
        return write_result(await client.infer(**build_arguments(request), client_timeout=seconds))
    except InferenceServerException as error:
        return write_error(error)


async def main() -> None:
    address, calls = read_calls()
    async with InferenceServerClient(address) as client:
        await answer_calls(calls, lambda call: ask(client, call["requests"][0], call["seconds"]))


if __name__ == "__main__":
    asyncio.run(main())
