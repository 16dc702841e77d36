"""The README is true: its code runs, its tables are whole."""

import re
import subprocess
import sys
from pathlib import Path

import click
import pytest

from server_processes import ServerProcess
from tensor_reshape.rules.errors import Reason
from tensor_reshape.server.__main__ import serve

README = (Path(__file__).parents[2] / "README.md").read_text()
CODE = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
OPTIONS = [option for option in serve.params if isinstance(option, click.Option) and option.name != "help"]


def find_row(first: str) -> str:
    (row,) = [line for line in README.splitlines() if line.startswith(f"| `{first}` |")]
    return row


def test_there_is_code_to_run():
    assert len(CODE) == 5


@pytest.mark.parametrize("code", CODE, ids=["sync", "transfers", "refusal", "partial", "asyncio"])
def test_the_code_runs(server: ServerProcess, code: str):
    subprocess.run([sys.executable, "-c", code.replace("localhost:50051", server.address)], check=True)


@pytest.mark.parametrize("option", OPTIONS, ids=lambda option: option.name)
def test_the_configuration_table_names_every_option(option: click.Option):
    cells = [cell.strip() for cell in find_row(option.opts[0]).split("|")]

    default = option.default[0] if option.multiple and isinstance(option.default, list) else option.default
    variable = f"TENSOR_RESHAPE_{str(option.name).upper()}"
    has_default = isinstance(default, str | int | float)
    assert cells[2:4] == [f"`{variable}`", f"`{default}`" if has_default else ""]


@pytest.mark.parametrize("reason", Reason)
def test_the_error_table_names_every_reason(reason: Reason):
    assert find_row(reason).count("|") == 4
