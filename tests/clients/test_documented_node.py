"""The page for other languages shows a Node client that works."""

import subprocess
from pathlib import Path

from documents import ROOT, find_blocks
from server_processes import ServerProcess

SECONDS = 60


def test_the_node_client_of_the_page_prints_what_its_comments_say(programs: Path, server: ServerProcess):
    (block,) = find_blocks("js")
    changes = {
        "localhost:50051": server.address,
        "'protos'": repr(str(ROOT / "protos")),
        "@grpc/proto-loader": "proto-loader-over-protobufjs-7",  # the name that the lock file gives it
    }
    code = block.text
    for old, new in changes.items():
        assert old in code
        code = code.replace(old, new)
    program = programs / "documented.mjs"
    program.write_text(code)

    done = subprocess.run(["node", program], capture_output=True, text=True, timeout=SECONDS, check=False)

    assert (done.stdout, done.stderr) == ("3,2\n1,2,3,4,5,6\n", "")
