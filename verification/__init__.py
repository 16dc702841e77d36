"""Programs that verify the product at length; each has a script of its name in `scripts/`, but for `restarts`.

- `fuzz`: the reader of messages against the generated classes.
- `prove`: shape inference against brute force, and over the wire and back.
- `compare`: shape inference against OpenVINO.
- `soak`: many mixed calls, while memory, threads and file descriptors are watched.
- `attack`: every attack that is known, beside polite clients.
- `restarts`: servers that are restarted and killed under load.

Three laws hold for all of them. What they do follows from a seed, which they print first, wherever chance is involved.
They end with 1 where something is not as it must be, and say what. They share their oracles with the tests
(`tests/oracles`), so that a wrong oracle is found by whoever uses it first.
"""
