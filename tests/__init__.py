"""The tests. Only `tests.oracles` is imported by its whole name: by the tests, and by `verification`."""
