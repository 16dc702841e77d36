"""The benchmarks: `python -m benchmarks SUITE`; docs/benchmarks/README.md describes the measurements."""
