"""The page on arrays: its code runs, and its table of types is what the frameworks have."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from documents import ROOT, Block, read_blocks
from server_processes import ServerProcess
from tensor_reshape.rules.dtypes import DataType
from tensor_reshape.wire.arrays import DTYPES

PAGE = ROOT / "docs/how-to/arrays.md"
BLOCKS = [block for block in read_blocks(PAGE) if block.language == "py"]


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: block.name)
def test_a_block_of_the_page_runs(tmp_path: Path, server: ServerProcess, block: Block):
    for framework in re.findall(r"^import (torch|jax)", block.text, re.MULTILINE):
        pytest.importorskip(framework, reason=f"{framework} is not installed: scripts/verify frameworks installs it")
    program = tmp_path / "block.py"  # a file: what is spawned imports it
    program.write_text(block.text.replace("localhost:50051", server.address))
    done = subprocess.run([sys.executable, program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_table_of_the_page_has_all_types_of_numpy_and_ml_dtypes():
    table = PAGE.read_text().partition("## Types")[2]
    of_a_range = {"int16", "int32", "uint8", "uint16", "uint32", "float32", "float64"}  # `int8` ... `uint64`
    named = {kind: kind.numpy_name for kind in DataType if kind in DTYPES and kind.numpy_name not in of_a_range}
    assert [name for name in named.values() if f"`{name}`" not in table and name != "int64"] == []
