"""Programs that verify the product at length; each has a script of its name in `scripts/`.

- `fuzz`: the reader of messages against the generated classes.
- `prove`: shape inference against brute force, and over the wire and back.
- `compare`: shape inference against OpenVINO.
- `soak`: many mixed calls, while memory, threads and file descriptors are watched.
- `attack`: every attack that is known, beside polite clients.
- `clients`: clients that nobody here wrote make one table of calls.
- `restarts`: servers that are restarted and killed under load, and one that refuses everything for a while.
- `transfers`: a file of many GiB through a server into another, and the memory that it takes.
- `endurance`: everything at once for half an hour: calls, attacks, restarts and kills.
- `document`: the pages that follow from the code; it writes them, or with `--check` compares them.

All of them end with 1 where something is not as it must be, and say what. What `fuzz`, `prove`, `compare` and `soak`
send follows from a seed, which they print first. `fuzz`, `prove` and `compare` hold the product against the oracles of
the tests (`tests/oracles`).
"""
