"""Node's protobuf parsers read the values that the rules give.

The parsers handle numbers differently that are longer than necessary. protobufjs 6 and 7 report no error after they
have lost their position, and return a result without dims.
"""

import json
from collections.abc import Callable, Iterator
from random import Random

import pytest

from server_processes import ServerProcess
from tensor_reshape.rules.batches import BatchItem
from tensor_reshape.rules.dtypes import DataType
from tensor_reshape.rules.operations import OPERATIONS, RESHAPE
from verification.client_rows import NATIVE_ROWS
from verification.clients import Program, find_difference
from verification.foreign_calls import (
    FOLLOWING,
    ForeignCall,
    list_questions,
    make_batch,
    make_inference,
    make_reshape,
    make_stream,
    make_tensor,
)

pytestmark = pytest.mark.timeout(400)  # the first test of a client installs its packages

LOADERS = {f"protobufjs {version}": f"proto-loader-over-protobufjs-{version}" for version in (6, 7, 8)}


# One number has one byte more at each of these sizes.
SIZES = (*range(100, 132), *range(16360, 16388, 3), 2**17, 2**21)
CHUNKS = {(6,): 24, (2, 3): 7, (40, 10): 200, (128, 128): 2**14 + 4, (0, 5): 1}
QUESTIONS = [*list_questions()]
ROWS = ("a reshape of every type", "without elements", "a rejection, its reason decoded")


def list_calls(random: Random) -> Iterator[ForeignCall]:
    """Yields reshapes whose encoded lengths and ranks differ, streams, and queries."""
    for dims in ([1, size] for size in SIZES):
        payload = random.randbytes(dims[1])
        yield make_reshape(RESHAPE, [-1], make_tensor(DataType.U8, dims, payload), payload)
    for rank in (*range(13), *range(13, 65, 3)):
        target = [*[1] * rank, 6][-rank:] if rank else [1, 6]
        yield make_reshape(RESHAPE, target, make_tensor(DataType.U8, [2, 3], bytes(6)), bytes(6))
    for operation in OPERATIONS.values():
        yield from (make_stream(random, operation, *stream) for stream in CHUNKS.items())
    yield from map(make_inference, QUESTIONS)
    linked = [BatchItem(FOLLOWING, index) for index in range(0, len(QUESTIONS), 7)]
    yield make_batch([*map(BatchItem, QUESTIONS), *linked])


CALLS = [*(call for row in ROWS for call in NATIVE_ROWS[row]()), *list_calls(Random(9))]
"""The calls, which are the same in every run."""


def find_differences(program: Program, server: ServerProcess, **options: str) -> list[str]:
    """Returns the wrong results of a parser over all calls."""
    answers = program.ask(server.address, CALLS, **options)
    return list(filter(None, map(find_difference, CALLS, answers)))


@pytest.mark.parametrize("name", LOADERS)
def test_protobufjs_decodes_every_server_response(
    find_program: Callable[[str], Program], server: ServerProcess, name: str
):
    program, loader = find_program("grpc_js"), LOADERS[name]
    modules = program.environment / "node_modules"
    own, shared = modules / loader / "node_modules/protobufjs", modules / "protobufjs"
    version = json.loads(((own if own.exists() else shared) / "package.json").read_text())["version"]

    assert f"protobufjs {version}".startswith(f"{name}.")
    assert find_differences(program, server, loader=loader) == []
