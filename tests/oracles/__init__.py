"""Oracles: independent implementations with which the tests and `verification` compare the product.

An oracle is simple and slow, and it is written from the specification. It uses only a few parts of the product: the
types of queries and results, the tables of types, limits and reasons, and single checks that have their own tests. Each
subject has one oracle. An oracle is deterministic, unless the caller passes a `random`.

- `shape_instances`: shape inference, by trying the concrete queries that match a partial one.
- `small_domain`, `instance_grids`: shape inference, by the rules for all small numbers at once with numpy.
- `conformance_cases`: shape inference, by the recorded answers of real libraries.
- `plain_messages`, `plain_batches`, `plain_dims`, `headers`: the contents of a message, by the generated classes.
- `second_implementation`, `planted_mistakes`: the answers to the conformance cases, and mistakes that these find.
- `varints`: whether every protobuf parser in use reads the same numbers from a message.
- `plain_engine`: the decisions of the engine about calls, by counting their memory after each event.
- `round_trips`: answers over the wire, by comparison with the local answer.
"""
