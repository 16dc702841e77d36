"""Programs that verify the product at length. `scripts/verify` lists them, and `scripts/verify NAME` runs one.

`document` is not among them: it writes the parts of the site that follow from the code, or checks them with `--check`.

Each program ends with status 1 if something is wrong, and says what. `fuzz`, `prove` and `soak` draw what they send
from a seed, which they print first. `fuzz` and `prove` compare the product with the oracles of the tests
(`tests/oracles`).
"""
