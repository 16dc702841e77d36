"""The example of a graph of models over REST."""

import subprocess
import sys

from documents import ROOT
from http_calls import find_http
from server_processes import run_server


def test_inference_graph_example_prints_the_output_of_the_last_step():
    with run_server("--http-listen", "127.0.0.1:0") as server:
        command = (sys.executable, ROOT / "examples/inference_graph.py", find_http(server))
        printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    assert printed == [
        "encoder: [4, 3] -> [4, 2]",
        "reshape: [4, 2] -> [2, 4]",
        "decoder: [2, 4] -> [2, 1]",
        "[22.0, 70.0]",
    ]
