"""Right answers, found in another way than the product finds them: the tests and `verification` hold it against them.

Three laws. An oracle is plain and slow, and is written from the specification, not from the product: of the product it
takes the types of questions and answers, the tables of types, limits and reasons, and single checks that have tests of
their own, so that a refusal can be compared with a refusal. There is one oracle for each question. And it decides
nothing by chance, but for what `random` it is given chooses.

- `shape_instances`, `view_instances`: shape inference, by trying the concrete questions that a partial one stands for.
- `conformance_cases`: shape inference, by what the real libraries answered.
- `plain_messages`, `plain_batches`, `plain_dims`, `headers`: what a message says, by the generated classes.
- `varints`: whether every reader in use takes the numbers of a message.
- `round_trips`: an answer over the wire, by the one that is given locally.
"""
