import tensor_reshape.client as sdk
from command_line import run_command


def test_version_of_the_sdk_is_that_of_the_command():
    assert run_command("--version").text == f"tensor-reshape, version {sdk.__version__}"
