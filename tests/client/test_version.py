import os
import subprocess
import sys

import tensor_reshape.client as sdk
from command_line import run_module
from documents import ROOT


def test_version_of_the_sdk_is_that_of_the_command():
    assert run_module("tensor_reshape.cli", "--version").text == f"tensor-reshape, version {sdk.__version__}"


def test_copy_of_the_sdk_that_is_not_installed_has_no_version():
    program = "import tensor_reshape.client as sdk; print(hasattr(sdk, '__version__'))"
    # Without the module site, the program does not find the installed distribution.
    command = [sys.executable, "-S", "-c", program]
    paths = {"PYTHONPATH": os.pathsep.join((f"{ROOT}/core", f"{ROOT}/client"))}
    done = subprocess.run(command, env={**os.environ, **paths}, capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == "False\n"
