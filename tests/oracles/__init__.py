"""Oracles: independent implementations with which the tests and `verification` compare the product.

An oracle is simple and slow, and it is written from the specification. It uses only a few parts of the product: the
types of queries and results, the tables of types, limits and reasons, and single checks that have their own tests. Each
subject has one oracle. An oracle is deterministic, unless the caller passes a `random`.

- `shape_instances`, `view_instances`: shape inference, by trying the concrete questions that a partial one stands for.
- `conformance_cases`: shape inference, by what the real libraries answered.
- `plain_messages`, `plain_batches`, `plain_dims`, `headers`: what a message says, by the generated classes.
- `varints`: whether every reader in use takes the numbers of a message.
- `round_trips`: an answer over the wire, by the one that is given locally.
"""
