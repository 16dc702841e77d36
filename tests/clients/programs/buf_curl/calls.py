"""Calls with `buf curl`, which gets the protobuf definition by reflection. Each call is a process."""

import base64
import json
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

from google.rpc import error_details_pb2

from calls_of_python import Answer, Call, describe_info, print_answer, read_lines

PROCESSES = 2
CODES = {"invalid_argument": 3, "deadline_exceeded": 4, "not_found": 5, "resource_exhausted": 8}


def main() -> None:
    """Makes the calls on stdin in order."""
    lines = read_lines()
    address = next(lines)["address"]
    with ThreadPoolExecutor(PROCESSES) as pool:
        for answer in pool.map(partial(make, address), lines):
            print_answer(answer)


def make(address: str, call: Call) -> Answer:
    """Makes a call, and returns its result."""
    url = f"http://{address}/{call['service']}/{call['method']}"
    done = subprocess.run(
        [".venv/bin/buf", "curl", "--protocol", "grpc", "--data", "@-", url],
        input="\n".join(map(json.dumps, call["requests"])),
        capture_output=True,
        text=True,
        check=False,
    )
    return describe(json.loads(done.stderr)) if done.returncode else {"responses": list(read_values(done.stdout))}


def read_values(text: str) -> Iterator[Any]:
    """Yields the consecutive JSON values in a text."""
    decoder, position = json.JSONDecoder(), 0
    while position < len(text):
        value, position = decoder.raw_decode(text, position)
        position += 1  # the newline
        yield value


def describe(error: dict[str, Any]) -> Answer:
    """Returns the contents of an error. Its details are bytes in base64."""
    answer = {"code": CODES[error["code"]], "message": error.get("message", "")}
    for detail in error.get("details", ()):
        if detail["type"] == "google.rpc.ErrorInfo":
            value = detail["value"] + "=" * (-len(detail["value"]) % 4)
            answer |= describe_info(error_details_pb2.ErrorInfo.FromString(base64.b64decode(value)))
    return answer


main()
