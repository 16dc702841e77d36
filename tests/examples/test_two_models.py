"""The example of two models: the shapes between the models, and the accuracy for digits."""

import re
import subprocess
import sys

from documents import ROOT
from server_processes import ServerProcess

LEAST_PERCENT = 80


def test_two_models_example_runs_without_an_error(server: ServerProcess):
    command = (sys.executable, ROOT / "examples/two_models.py", server.address)
    shapes, result = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()

    assert shapes == "[N, 2, 4, 2, 4] -> [4*N, 16] -> first model -> [4*N, 8] -> [N, 32] -> second model"
    # With elements in wrong places, only one in ten would be right.
    (percent,) = re.findall(r"^(\d+)% of 597 digits are recognized$", result)
    assert int(percent) > LEAST_PERCENT
