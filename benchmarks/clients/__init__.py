"""The clients that measure: each module has an `open_session` for `benchmarks.workers`."""
