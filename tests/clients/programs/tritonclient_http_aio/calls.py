"""Calls with tritonclient over HTTP and asyncio."""

import asyncio

import tritonclient.http.aio as triton
from tritonclient.utils import InferenceServerException

from calls_of_python import answer_calls
from inference_calls import Json, read_calls
from rest_calls import TIMEOUT, build_triton_arguments, describe_error, write_triton_result


async def ask(address: str, request: Json, seconds: float) -> Json:
    try:
        async with triton.InferenceServerClient(address, conn_timeout=seconds) as client:
            return write_triton_result(await client.infer(**build_triton_arguments(triton, request)))
    except InferenceServerException as error:
        return describe_error(int(error.status() or 0), error.message())
    except TimeoutError:
        return TIMEOUT


async def main() -> None:
    address, calls = read_calls()
    await answer_calls(calls, lambda call: ask(address, call["requests"][0], call["seconds"]))


if __name__ == "__main__":
    asyncio.run(main())
