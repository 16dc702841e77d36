"""The programs of examples/moving, which use the libraries in their own process, print what their comments say."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from documents import ROOT

OPENVINO, ONEDNN = ROOT / "examples/moving/in_openvino.py", ROOT / "examples/moving/onednn.cpp"
PRINTED = re.compile(r"^.*(?:print|cout).*(?:#|//) (.*)$", re.MULTILINE)
ENVIRONMENT = ROOT / ".venv-openvino"
"""It stays: OpenVINO is no part of what the tests need, and large."""


def read_printed(program: Path) -> list[str]:
    return " ".join(PRINTED.findall(program.read_text())).split()


@pytest.fixture(scope="module")
def openvino() -> Path:
    """The folder that has OpenVINO's package."""
    command = [sys.executable, "-m", "uv", "pip", "install", "--quiet", "--no-deps", "--target", str(ENVIRONMENT)]
    if not (ENVIRONMENT / "openvino").exists():
        done = subprocess.run([*command, "openvino>=2025"], capture_output=True, text=True, check=False)
        if done.returncode:
            pytest.skip(f"OpenVINO cannot be had here: {done.stderr[-300:]}")
    return ENVIRONMENT


def test_the_program_in_openvino_prints_what_its_comments_say(openvino: Path):
    env = {**os.environ, "PYTHONPATH": str(openvino)}
    done = subprocess.run([sys.executable, OPENVINO], env=env, capture_output=True, text=True, check=False)

    assert done.stdout.split() == read_printed(OPENVINO), done.stderr


def test_the_program_in_onednn_prints_what_its_comments_say(tmp_path: Path):
    probe = ["g++", "-E", "-include", "oneapi/dnnl/dnnl_graph.hpp", "-x", "c++", os.devnull]
    try:
        found = subprocess.run(probe, capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        found = False
    if not found:
        pytest.skip("no g++ that finds oneDNN 3 (CPATH, LIBRARY_PATH and LD_LIBRARY_PATH may say where it is)")
    program = tmp_path / "onednn"
    subprocess.run(["g++", "-std=c++17", ONEDNN, "-o", program, "-ldnnl"], check=True)

    done = subprocess.run([program], capture_output=True, text=True, check=False)
    assert done.stdout.split() == read_printed(ONEDNN), done.stderr
