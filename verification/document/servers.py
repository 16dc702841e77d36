"""The servers that provocations are sent to: each has little of something, or demands something."""

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
"""What the server of `Servers.client` takes."""

TOKEN = "of-nobody-but-this-program-" * 2
"""What the server of `Servers.guarded` knows."""

_LIMITS = ("--max-message-bytes", str(MAX_MESSAGE_BYTES))
_FULL = ("--max-calls", "2")
_STRICT = ("--max-calls-per-caller", "2")
_IMPATIENT = ("--stall-timeout-seconds", "0.2")


class Servers(NamedTuple):
    """What is asked.

    Attributes:
        client: of a server with small limits, which shares a directory with callers: it has a `file` of 16 bytes.
        channel: to the same.
        full: to a server that has as many calls under way as it takes.
        impatient: to one that gives calls up soon.
        strict: to one that allows each caller few calls.
        guarded: to one that knows a token, and lets whoever shows it ask for shapes alone.
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
        (folder / "file").write_bytes(bytes(16))
        small = (*_LIMITS, "--shared-memory-dir", str(folder))
        all_flags = (small, _FULL, _IMPATIENT, _STRICT, _guard(folder))
        addresses = [stack.enter_context(run_server(*flags)).address for flags in all_flags]
        channels = [stack.enter_context(grpc.insecure_channel(address)) for address in addresses]
        client = stack.enter_context(Client(addresses[0]))
        yield Servers(client, *channels)


def _guard(folder: Path) -> tuple[str, ...]:
    """Writes the files of who may call, and returns the flags that name them."""
    tokens, authorization = folder / "tokens", folder / "authorization.toml"
    tokens.write_text(f"viewer:{TOKEN}\n")
    authorization.write_text(f'[callers]\n"token:viewer" = ["/{SERVICE}/InferShape"]\n')
    return "--token-file", str(tokens), "--authorization-file", str(authorization)
