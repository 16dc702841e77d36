"""Node's protobuf parsers read the values that the rules give.

The parsers handle numbers differently that are longer than necessary. protobufjs 6 and 7 report no error after they
have lost their position, and return a result without dims.
"""

import json
from collections.abc import Callable

import pytest

from foreign_calls import CALLS
from server_processes import ServerProcess
from verification.clients.answers import find_difference
from verification.clients.programs import Program

pytestmark = pytest.mark.timeout(400)  # the first test of a client installs its packages

LOADERS = {f"protobufjs {version}": f"proto-loader-over-protobufjs-{version}" for version in (6, 7, 8)}


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
