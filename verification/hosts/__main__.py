"""Runs hosts with servers and a client host in network namespaces, and measures the calls when hosts fail.

The run passes if no call is lost and all failures are detected in time. `--json` prints the measurements as JSON.
"""

import argparse
import json
import subprocess
import sys

from host_networks import HostNetwork, build_command, build_environment, find_obstacle
from verification.hosts.scenarios import NAMES, run_scenarios

_HOSTS = 4


def parse_arguments() -> argparse.Namespace:
    """Reads the command line."""
    parser = argparse.ArgumentParser("scripts/verify hosts", description=__doc__)
    parser.add_argument("--only", nargs="+", choices=NAMES, default=NAMES, help="scenarios")
    parser.add_argument("--json", action="store_true", help="print one line of JSON for each scenario")
    parser.add_argument(
        "--inside", action="store_true", help=argparse.SUPPRESS
    )  # this process already has its namespaces
    return parser.parse_args()


def main() -> int:
    """Runs the scenarios. The status is 1 if a scenario fails."""
    arguments = parse_arguments()
    if arguments.inside:
        return run(arguments.only, as_json=arguments.json)
    if obstacle := find_obstacle():
        sys.exit(obstacle)
    command = build_command(sys.executable, "-m", "verification.hosts", "--inside", *sys.argv[1:])
    return subprocess.run(command, env=build_environment(), check=False).returncode


def run(names: list[str], *, as_json: bool) -> int:
    """Runs scenarios in the namespaces of this process."""
    lost = 0
    for report in run_scenarios(HostNetwork(_HOSTS), names):
        print(json.dumps(report.to_json()) if as_json else report.describe(), flush=True)
        lost += len(report.failures)
    return 1 if lost else 0


if __name__ == "__main__":
    sys.exit(main())
