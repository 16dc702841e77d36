"""A short form of `scripts/verify transfers`."""

import json
from pathlib import Path

import pytest

from verification.transfers import MAX_CLIENT_BYTES, main


def test_command_line_reshapes_an_array_larger_than_memory(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    code = main(["--gib", "0.2", "--folder", str(tmp_path), "--json"])
    told = json.loads(capsys.readouterr().out)
    assert (code, told["problems"]) == (0, [])
    assert told["size"] > MAX_CLIENT_BYTES
