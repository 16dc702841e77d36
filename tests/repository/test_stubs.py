"""The documented commands generate the stubs for other languages."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from documents import ROOT, read_blocks

PAGE = ROOT / "docs/how-to/clients-go-java-cpp.md"
PATH = f"{ROOT / '.venv-clients/go/bin'}:{os.environ['PATH']}"
"""tests/clients builds Go's plugin in this folder, because Debian has only its source."""
MADE = {
    "go": ("protoc-gen-go", ["reshape.pb.go", "reshape_grpc.pb.go", "tensor.pb.go"]),
    "java": ("grpc_java_plugin", ["ReshapeServiceGrpc.java"]),
    "cpp": ("grpc_cpp_plugin", ["reshape.grpc.pb.cc", "reshape.pb.cc", "tensor.pb.cc"]),
}
"""For each language, its plugin and the generated files."""


@pytest.mark.parametrize("language", MADE)
def test_documented_protoc_command_generates_the_stubs_of_each_language(tmp_path: Path, language: str):
    plugin, made = MADE[language]
    missing = [tool for tool in ("protoc", plugin) if shutil.which(tool, path=PATH) is None]
    if missing:
        pytest.skip(f"not installed: {', '.join(missing)}")
    (commands,) = [block.text.replace("\\\n", "") for block in read_blocks(PAGE) if "protoc -I" in block.text]
    lines = [line for line in commands.splitlines() if f"--{language}_out" in line or not re.search(r"--\w+_out", line)]
    (tmp_path / "protos").symlink_to(ROOT / "protos")

    subprocess.run(["sh", "-e", "-c", "\n".join(lines)], cwd=tmp_path, env={**os.environ, "PATH": PATH}, check=True)

    assert set(made) <= {path.name for path in (tmp_path / "gen").rglob("*")}
