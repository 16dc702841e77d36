"""Files that the commands read and write."""

from pathlib import Path

import numpy as np
import pytest

from command_line import SIX


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A file of `SIX`."""
    path = tmp_path / "data.npy"
    np.save(path, SIX)
    return path


@pytest.fixture
def output(tmp_path: Path) -> Path:
    """The path of an output file."""
    return tmp_path / "output.npy"
