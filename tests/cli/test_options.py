"""The options that several commands have."""

from pathlib import Path

from command_line import NOBODY, run_command
from server_processes import ServerProcess

HUGE = (str(2**63), str(-(2**70)), "1" + "0" * 5000)


def test_environment_variable_sets_the_server_address(server: ServerProcess):
    outcome = run_command("health", env={"TENSOR_RESHAPE_SERVER": server.address})
    assert (outcome.code, outcome.text) == (0, "SERVING")


def test_health_command_uses_the_address_variables_of_the_server(server: ServerProcess):
    port = server.address.rpartition(":")[2]
    for variables in (
        {"TENSOR_RESHAPE_LISTEN": f"0.0.0.0:{port} unix:/none"},
        {"TENSOR_RESHAPE_HEALTH_LISTEN": f"[::]:{port}", "TENSOR_RESHAPE_LISTEN": "0.0.0.0:1"},
        {"TENSOR_RESHAPE_SERVER": server.address, "TENSOR_RESHAPE_HEALTH_LISTEN": "0.0.0.0:1"},
    ):
        outcome = run_command("health", "--timeout", "5", env=variables)
        assert (outcome.code, outcome.text) == (0, "SERVING"), variables


def test_invalid_target_shape_option_prints_an_error_without_a_traceback(file: Path):
    for command, shape in (("reshape", "a,b"), ("reshape", "@missing.npy"), *(("static", one) for one in HUGE)):
        outcome = run_command(command, file, "--shape", shape, "--no-special-zero", *NOBODY)
        assert (outcome.code in {1, 2, 3}, outcome.errors[-1].startswith("Error: ")) == (True, True), shape
    outcome = run_command("static", file, "--shape", "6", *NOBODY)
    assert (outcome.code, "special-zero" in outcome.errors[-1]) == (2, True)
