"""Clients in the processes of a torch DataLoader, forked or spawned: each process makes its own."""

import subprocess
import sys
from pathlib import Path

import pytest

from server_processes import ServerProcess

pytest.importorskip("torch", reason="torch is not installed: scripts/verify frameworks installs it")

LOADER = """
import sys

import torch
from torch.utils.data import DataLoader

from tensor_reshape.client import Client

{definition}


if __name__ == "__main__":
    address, context = sys.argv[1:]
    loader = DataLoader(Rows(address), num_workers=2, multiprocessing_context=context)
    try:
        print(sorted(float(batch.sum()) for batch in loader))
    except (RuntimeError, TypeError) as error:
        print(error)
"""
SHARED = """
class Rows:
    def __init__(self, address):
        self.client = Client(address)
        self.client.wait_until_ready()
    def __len__(self):
        return 4
    def __getitem__(self, index):
        return self.client.reshape(torch.full((2, 3), float(index)), [-1], special_zero=False, like=torch)
"""
OWN = """
class Rows:
    def __init__(self, address):
        self.address, self.client = address, None
    def __len__(self):
        return 4
    def __getitem__(self, index):
        self.client = self.client or Client(self.address)
        return self.client.reshape(torch.full((2, 3), float(index)), [-1], special_zero=False, like=torch)
"""


def load(folder: Path, server: ServerProcess, definition: str, context: str) -> str:
    program = folder / "loader.py"
    program.write_text(LOADER.format(definition=definition))
    command = [sys.executable, str(program), server.address, context]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout or done.stderr


@pytest.mark.parametrize("context", ["fork", "spawn"])
def test_a_client_that_each_worker_makes_serves_it(tmp_path: Path, server: ServerProcess, context: str):
    assert load(tmp_path, server, OWN, context).strip() == "[0.0, 6.0, 12.0, 18.0]"


@pytest.mark.parametrize(
    ("context", "what"), [("fork", "was made before this process was forked"), ("spawn", "cannot be pickled")]
)
def test_a_client_of_the_parent_says_what_to_do(tmp_path: Path, server: ServerProcess, context: str, what: str):
    error = load(tmp_path, server, SHARED, context)
    assert what in error
    assert "make one in each process" in error
