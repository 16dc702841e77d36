"""What the README says to do for stubs in another language makes them."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from documents import README, ROOT, read_blocks

(COMMANDS,) = [block.text for block in read_blocks(README) if "protoc -I" in block.text]
FILES, *CALLS = COMMANDS.splitlines()
PLUGINS = {"go": "protoc-gen-go", "java": "grpc_java_plugin", "cpp": "grpc_cpp_plugin"}
PATH = f"{ROOT / '.venv-clients/go/bin'}:{os.environ['PATH']}"
"""Where the tests of other people's clients build Go's plugin, which Debian has as its source alone."""
MADE = {
    "go": ["reshape.pb.go", "reshape_grpc.pb.go", "tensor.pb.go"],
    "java": ["ReshapeServiceGrpc.java"],
    "cpp": ["reshape.grpc.pb.cc", "reshape.pb.cc", "tensor.pb.cc"],
}


def name_language(call: str) -> str:
    (language,) = re.findall(r"--(go|java|cpp)_out", call)
    return str(language)


@pytest.mark.parametrize("call", CALLS, ids=name_language)
def test_the_command_makes_the_stubs_of_a_language(tmp_path: Path, call: str):
    language = name_language(call)
    missing = [tool for tool in ("protoc", PLUGINS[language]) if shutil.which(tool, path=PATH) is None]
    if missing:
        pytest.skip(f"not installed: {', '.join(missing)}")
    (tmp_path / "protos").symlink_to(ROOT / "protos")
    (tmp_path / "gen").mkdir()

    command = f"{FILES}\n{call}"
    subprocess.run(["sh", "-e", "-c", command], cwd=tmp_path, env={**os.environ, "PATH": PATH}, check=True)

    made = {path.name for path in (tmp_path / "gen").rglob("*")}
    assert [name for name in MADE[language] if name not in made] == []
