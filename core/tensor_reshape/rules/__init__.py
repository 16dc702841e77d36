"""What the contract means: the rules of the operations, as pure functions of the standard library.

Laws of this package: no I/O, no clock, no randomness, no numpy, no grpc. Every integer is exact. A refused request is
an exception of `errors`, which knows its permanent reason and no transport.
"""
