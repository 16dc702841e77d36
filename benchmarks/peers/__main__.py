"""Runs a measured server in its own process: `python -m benchmarks.peers NAME ADDRESS`."""

import importlib
import sys

if __name__ == "__main__":
    importlib.import_module(f"benchmarks.peers.{sys.argv[1]}").serve(sys.argv[2])
