"""The README's commands make the stubs of other languages."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from documents import README, ROOT, read_blocks

PATH = f"{ROOT / '.venv-clients/go/bin'}:{os.environ['PATH']}"
"""The tests of other people's clients build Go's plugin there: Debian has its source only."""
MADE = {
    "go": ("protoc-gen-go", ["reshape.pb.go", "reshape_grpc.pb.go", "tensor.pb.go"]),
    "java": ("grpc_java_plugin", ["ReshapeServiceGrpc.java"]),
    "cpp": ("grpc_cpp_plugin", ["reshape.grpc.pb.cc", "reshape.pb.cc", "tensor.pb.cc"]),
}
"""By language, its plugin and what is made."""


@pytest.mark.parametrize("language", MADE)
def test_command_makes_the_stubs_of_a_language(tmp_path: Path, language: str):
    plugin, made = MADE[language]
    missing = [tool for tool in ("protoc", plugin) if shutil.which(tool, path=PATH) is None]
    if missing:
        pytest.skip(f"not installed: {', '.join(missing)}")
    (commands,) = [block.text for block in read_blocks(README) if "protoc -I" in block.text]
    lines = [line for line in commands.splitlines() if f"--{language}_out" in line or not re.search(r"--\w+_out", line)]
    (tmp_path / "protos").symlink_to(ROOT / "protos")

    subprocess.run(["sh", "-e", "-c", "\n".join(lines)], cwd=tmp_path, env={**os.environ, "PATH": PATH}, check=True)

    assert set(made) <= {path.name for path in (tmp_path / "gen").rglob("*")}
