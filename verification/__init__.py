"""Programs that verify the product at length, and the generator of reference pages (`document`).

`scripts/verify` lists the programs. Each ends with status 1 if something is wrong, and says what. `fuzz` and `prove`
compare the product with the oracles of the tests (`tests/oracles`).
"""
