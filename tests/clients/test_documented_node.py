"""The page for other languages shows Node's clients that work."""

import base64
import re
import subprocess
from collections.abc import Callable

import pytest

from documents import ROOT, Block, find_blocks
from server_processes import ServerProcess
from verification.clients.programs import Program, encode_descriptors

SECONDS = 60
PRINTED = re.compile(r"console\.log\(.*\); // (.*)$", re.MULTILINE)


@pytest.mark.parametrize("block", find_blocks("js"), ids=lambda block: block.name)
def test_a_node_client_of_the_page_prints_what_its_comments_say(
    find_program: Callable[[str], Program], server: ServerProcess, block: Block
):
    folder = find_program("connect_node" if "@connectrpc" in block.text else "grpc_js").environment
    code = block.text.replace("localhost:50051", server.address).replace("'protos'", repr(str(ROOT / "protos")))
    (folder / "contract.binpb").write_bytes(base64.b64decode(encode_descriptors()))
    (folder / "documented.mjs").write_text(code)

    done = subprocess.run(
        ["node", "documented.mjs"], cwd=folder, capture_output=True, text=True, timeout=SECONDS, check=False
    )

    assert (done.stdout.splitlines(), done.stderr) == (PRINTED.findall(block.text), "")
