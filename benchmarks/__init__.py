"""The benchmarks: `python -m benchmarks SUITE`; docs/benchmarks/README.md says what is measured and how."""
