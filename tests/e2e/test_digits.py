import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[2] / "examples" / "digits.py"


@pytest.mark.repository
def test_digits_example_starts_its_own_server_and_succeeds():
    result = subprocess.run([sys.executable, EXAMPLE], capture_output=True, text=True, check=True)
    assert [line.split(":")[0] for line in result.stdout.splitlines()] == ["float32", "float16", "bfloat16"]
