"""The code of the page on arrays runs."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from documents import ROOT, Block, read_blocks
from server_processes import ServerProcess

PAGE = ROOT / "docs/how-to/arrays.md"
BLOCKS = [block for block in read_blocks(PAGE) if block.language == "py"]


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: block.name)
def test_code_block_of_the_frameworks_page_runs(tmp_path: Path, server: ServerProcess, block: Block):
    for framework in re.findall(r"^import (torch|jax)", block.text, re.MULTILINE):
        pytest.importorskip(framework, reason=f"{framework} is not installed: scripts/verify frameworks installs it")
    program = tmp_path / "block.py"  # a file, because spawned processes import it
    program.write_text(block.text.replace("localhost:50051", server.address))
    # When Python ends, it may stop a thread of a torch queue between the removal of a semaphore and its report.
    quiet = "ignore::UserWarning:multiprocessing.resource_tracker"
    done = subprocess.run([sys.executable, "-W", quiet, program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
