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


class Rows:
    def __init__(self, address):
        self.address, self.client = address, None
    def __len__(self):
        return 4
    def __getitem__(self, index):
        self.client = self.client or Client(self.address)
        return self.client.reshape(torch.full((2, 3), float(index)), [-1], special_zero=False, like=torch)


if __name__ == "__main__":
    address, context = sys.argv[1:]
    loader = DataLoader(Rows(address), num_workers=2, multiprocessing_context=context)
    print(sorted(float(batch.sum()) for batch in loader))
"""


@pytest.mark.parametrize("context", ["fork", "spawn"])
def test_data_loader_workers_can_each_create_a_client(tmp_path: Path, server: ServerProcess, context: str):
    program = tmp_path / "loader.py"
    program.write_text(LOADER)
    command = [sys.executable, str(program), server.address, context]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "[0.0, 6.0, 12.0, 18.0]", done.stderr
