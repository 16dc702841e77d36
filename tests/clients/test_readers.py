"""What Node's readers of messages read is what the rules give, whatever they are asked.

Each reader in use has its own way with numbers that are longer than they must be. protobufjs 6 and 7 do not say that
they have lost their place: they answer without dims.
"""

import json
from collections import Counter
from collections.abc import Callable

import pytest

from foreign_calls import CALLS, ForeignCall
from server_processes import ServerProcess
from tensor_reshape.wire.methods import OPERATION_METHODS
from verification.clients.answers import find_difference
from verification.clients.programs import Program

pytestmark = pytest.mark.timeout(400)  # whoever comes first waits for the packages

LOADERS = {f"protobufjs {version}": f"proto-loader-over-protobufjs-{version}" for version in (6, 7, 8)}
READERS = {
    **{name: ("grpc_js", {"loader": loader}) for name, loader in LOADERS.items()},
    "connect": ("connect_node", {}),
}
COUNTS = Counter(call.method for call in CALLS)


@pytest.fixture(scope="session", params=list(READERS.values()), ids=list(READERS))
def differences(
    request: pytest.FixtureRequest, find_program: Callable[[str], Program], server: ServerProcess
) -> list[tuple[ForeignCall, str]]:
    """Each call with what one of the readers says became of it that is not as it must be."""
    name, options = request.param
    answers = find_program(name).ask(server.address, CALLS, **options)
    return [(call, find_difference(call, answer)) for call, answer in zip(CALLS, answers, strict=True)]


@pytest.mark.parametrize("method", COUNTS)
def test_every_answer_is_what_the_rules_give(differences: list[tuple[ForeignCall, str]], method: str):
    assert [difference for call, difference in differences if call.method == method and difference] == []


def test_some_hundreds_of_shapes_are_asked_of_every_operation():
    assert min(COUNTS[method.name] for method in OPERATION_METHODS.values()) > 25
    assert COUNTS.total() > 300


@pytest.mark.parametrize(("name", "loader"), LOADERS.items())
def test_each_loader_reads_with_the_protobufjs_of_its_name(
    find_program: Callable[[str], Program], name: str, loader: str
):
    modules = find_program("grpc_js").environment / "node_modules"
    own, shared = modules / loader / "node_modules/protobufjs", modules / "protobufjs"
    version = json.loads(((own if own.exists() else shared) / "package.json").read_text())["version"]
    assert f"protobufjs {version}".startswith(f"{name}.")
