"""The page for other languages shows Node's clients that work."""

import base64
import re
import subprocess
from pathlib import Path

import pytest

from documents import ROOT, Block, find_blocks
from server_processes import ServerProcess

SECONDS = 60
PRINTED = re.compile(r"console\.log\(.*\); // (.*)$", re.MULTILINE)


@pytest.mark.parametrize("block", find_blocks("js"), ids=lambda block: block.name)
def test_a_node_client_of_the_page_prints_what_its_comments_say(
    programs: Path, descriptors: str, server: ServerProcess, block: Block
):
    changes = {
        "localhost:50051": server.address,
        "'protos'": repr(str(ROOT / "protos")),
        "@grpc/proto-loader": "proto-loader-over-protobufjs-7",  # the name that the lock file gives it
    }
    code = block.text
    for old, new in changes.items():
        code = code.replace(old, new)
    (programs / "contract.binpb").write_bytes(base64.b64decode(descriptors))
    (programs / "documented.mjs").write_text(code)

    done = subprocess.run(
        ["node", "documented.mjs"], cwd=programs, capture_output=True, text=True, timeout=SECONDS, check=False
    )

    assert (done.stdout.splitlines(), done.stderr) == (PRINTED.findall(block.text), "")
