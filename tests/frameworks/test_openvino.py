"""The program of examples/moving in OpenVINO, which uses it in its own process, prints what its comments say."""

import subprocess
import sys

import pytest

from documents import ROOT
from printed_comments import read_printed

PROGRAM = ROOT / "examples/moving/in_openvino.py"


def test_openvino_program_prints_its_comments():
    pytest.importorskip("openvino", reason="OpenVINO is not installed: scripts/verify frameworks installs it")
    done = subprocess.run([sys.executable, PROGRAM], capture_output=True, text=True, check=False)

    assert done.stdout.split() == read_printed(PROGRAM), done.stderr
