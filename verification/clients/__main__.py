"""Makes the same calls to a real server with third-party clients, and prints the results of each client.

Each client has its own environment in `.venv-clients`, which is made once and kept. A number in the table counts the
calls that returned the expected elements, or failed with the expected code and reason. A number in brackets means that
this client has a different expected result. The reason is below the table.
"""

import argparse
import subprocess
import sys
import time

from server_processes import run_server
from verification.clients.matrices import Cell, run_table, write_matrix
from verification.clients.programs import LackingError, Program, find_programs
from verification.clients.rows import TABLES


def parse_arguments() -> argparse.Namespace:
    """Reads the command line."""
    names = [program.name for program in find_programs()]
    parser = argparse.ArgumentParser("scripts/verify clients", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"clients to run; default: all of {', '.join(names)}")
    arguments = parser.parse_args()
    if not set(arguments.names) <= set(names):
        parser.error(f"no client has these names: {sorted(set(arguments.names) - set(names))}. The clients are {names}")
    return arguments


def main() -> int:
    """Runs the clients. The status is 1 if a client cannot be installed, or if the result of a call is wrong."""
    arguments = parse_arguments()
    programs = [program for program in find_programs() if program.name in arguments.names or not arguments.names]
    versions, lacking = install_all(programs)
    ready = [program for program in programs if program.name in versions]
    differences = [difference for table in TABLES for difference in show_table(table, ready)]
    differences += [difference for program in ready if program.page for difference in check_page(program)]
    print("", *[f"- {program.title}: {versions[program.name]}" for program in ready], *lacking, *differences, sep="\n")
    return 1 if lacking or differences else 0


def install_all(programs: list[Program]) -> tuple[dict[str, str], list[str]]:
    """Returns the versions of each installed client, and the reason for each client that cannot be installed."""
    versions, lacking = {}, []
    for program in programs:
        begin = time.monotonic()
        try:
            versions[program.name] = program.install()
        except (LackingError, RuntimeError) as error:
            lacking.append(f"{program.name} is missing: {error}")
        print(f"{program.name}: {time.monotonic() - begin:.1f} s to install", flush=True)
    return versions, lacking


def show_table(table: str, programs: list[Program]) -> list[str]:
    """Runs a table with all clients of its protocol, prints the matrix, and returns the wrong results."""
    columns: dict[str, dict[str, Cell]] = {}
    failed = []
    for program in programs:
        if table in program.tables:
            begin = time.monotonic()
            try:
                with run_server(*program.server) as server:
                    columns[program.name] = run_table(program, table, program.find_address(server))
            except (RuntimeError, subprocess.TimeoutExpired) as error:
                failed.append(f"{program.name}, {table}: {error}")
            print(f"{program.name}: {time.monotonic() - begin:.1f} s for the table {table}", flush=True)
    if columns:
        print("", *write_matrix(table, columns), "", sep="\n")
    cells = [(name, row, cell) for name, rows in columns.items() for row, cell in rows.items()]
    print(*[f"- {name}, {row}: {cell.why}" for name, row, cell in cells if cell.why], sep="\n")
    wrong = [f"{name}, {row}: {difference}" for name, row, cell in cells for difference in cell.differences]
    return [*failed, *wrong]


def check_page(program: Program) -> list[str]:
    """Makes the shortest call of a client, and returns what differs from the page that shows it."""
    with run_server(*program.server) as server:
        difference = program.find_page_difference(program.find_address(server))
    return [f"{program.name}, {program.page}: {difference}"] if difference else []


if __name__ == "__main__":
    sys.exit(main())
