"""What the contract means: the rules of the operations, as pure functions of the standard library.

The five rules, in the order in which a question in numbers is checked; `inference` tells that of any other. V is the
volume of the data, the product of its dims (1 for a scalar). All arithmetic is exact.

1. The data type, special_zero, the ranks and the dims are admitted.
2. Left to right, each item of the target is a dim, a 0 that copies the data dim at its index (special_zero), or one
   -1; anything else is refused.
3. The -1 becomes V / P, P the product of all other items, copies substituted. Reshape-1 takes the copied dims out of V
   and P first. P = 0, a remainder, and a quotient above 2^63 - 1 are refused.
4. The output has the volume of the data.
5. The output is the expected shape, where the caller declared one.

Sources: StaticReshape-1 and DynamicReshape-1 (oneAPI / oneDNN Graph), Reshape-1 (OpenVINO operation set 1).

The vocabulary:

- *data*, *target*, *output*: the shape that is given, what it is to become, and what it becomes;
- *dim*: a number, an interval, a symbol, an expression of symbols, or unknown (`dims`); *item*: one of the target;
- *instance*: the concrete data and target that a question known in part may stand for;
- *literal*, *copied*, *inferred*, *length*, *unknown*: what an item is (`questions.Kind`);
- *refusal*: an exception of `errors`, with its permanent reason, the field to blame, and the values;
- *variable*, *monomial*, *equation*, *case*: how the solvers write a question (`solvers`);
- *step budget*: what bounds the work of a search (`budgets`).

A request goes through `inference`: `targets` reads its items (rule 2), `solvers` find the output (rules 3 and 4),
`views` and `explanations` say more of it, `refusals` say why there is none. `batches` asks many questions at once.

Laws: no I/O, no clock, no randomness, no numpy, no grpc; every integer is exact; only `inference` imports `solvers`.
"""
