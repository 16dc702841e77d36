"""The oneDNN program of examples/moving prints its comments. tests/frameworks checks the OpenVINO program."""

import os
import subprocess
from pathlib import Path

import pytest

from documents import ROOT, read_printed

PROGRAM = ROOT / "examples/moving/onednn.cpp"


def test_onednn_example_prints_the_output_in_its_comments(tmp_path: Path):
    probe = ["g++", "-E", "-include", "oneapi/dnnl/dnnl_graph.hpp", "-x", "c++", os.devnull]
    try:
        found = subprocess.run(probe, capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        found = False
    if not found:
        pytest.skip("g++ does not find oneDNN 3; set CPATH, LIBRARY_PATH and LD_LIBRARY_PATH")
    program = tmp_path / "onednn"
    subprocess.run(["g++", "-std=c++17", PROGRAM, "-o", program, "-ldnnl"], check=True)

    done = subprocess.run([program], capture_output=True, text=True, check=False)
    assert done.stdout.split() == read_printed(PROGRAM), done.stderr
