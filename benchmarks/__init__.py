"""The benchmark suite: `python -m benchmarks`. See docs/benchmarks/README.md."""
