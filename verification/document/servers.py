"""The servers for provocations. Each has a low limit or requires credentials."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import grpc

from server_processes import run_server
from tensor_reshape.client import Client
from tensor_reshape.wire.methods import SERVICE

MAX_MESSAGE_BYTES = 2**20
"""The message limit of the server of `Servers.client`."""

TOKEN = "of-nobody-but-this-program-" * 2
"""The token of the server of `Servers.guarded`."""

_LIMITS = ("--max-message-bytes", str(MAX_MESSAGE_BYTES))
_FULL = ("--max-calls", "2")
_STRICT = ("--max-calls-per-caller", "2")
_IMPATIENT = ("--stall-timeout-seconds", "0.2")


class Servers(NamedTuple):
    """Connections to the servers.

    Attributes:
        client: a client of a server with small limits and a shared directory, which has a `file` of 16 bytes.
        channel: a channel to the same server.
        full: a channel to a server with a low limit of running calls.
        impatient: a channel to a server with a short stall timeout.
        strict: a channel to a server with a low quota for each caller.
        guarded: a channel to a server that requires a token and permits only InferShape.
    """

    client: Client
    channel: grpc.Channel
    full: grpc.Channel
    impatient: grpc.Channel
    strict: grpc.Channel
    guarded: grpc.Channel


@contextmanager
def run_servers() -> Iterator[Servers]:
    """Runs the servers until the end of the block."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory()))
        all_flags = (_LIMITS, _FULL, _IMPATIENT, _STRICT, _guard(folder))
        addresses = [stack.enter_context(run_server(*flags)).address for flags in all_flags]
        channels = [stack.enter_context(grpc.insecure_channel(address)) for address in addresses]
        client = stack.enter_context(Client(addresses[0]))
        yield Servers(client, *channels)


def _guard(folder: Path) -> tuple[str, ...]:
    """Writes the token file and the authorization file, and returns the flags for them."""
    tokens, authorization = folder / "tokens", folder / "authorization.toml"
    tokens.write_text(f"viewer:{TOKEN}\n")
    authorization.write_text(f'[callers]\n"token:viewer" = ["/{SERVICE}/InferShape"]\n')
    return "--token-file", str(tokens), "--authorization-file", str(authorization)
