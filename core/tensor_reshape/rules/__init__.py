"""The rules of the operations, as pure functions of the standard library.

For a query with known shapes, five rules are checked in this order. `inference` handles all other queries. V is the
volume: the number of elements of the data, which is the product of its dims, or 1 for a scalar. All arithmetic is
exact.

1. The data type, special_zero, the ranks and the dims must be valid.

2. From left to right, each item of the requested shape is a dim, a 0 that copies the data dim at its index (with
special_zero), or one -1. Anything else is rejected.

3. The -1 becomes V / P, where P is the product of all other items after copying. Reshape-1 first removes the copied
dims from V and P. If P is 0, or there is a remainder, or the quotient exceeds 2^63 - 1, the query is rejected.

4. The output must have the volume of the data.

5. The output must match the expected shape, if there is one.

Sources: StaticReshape-1 and DynamicReshape-1 (oneAPI / oneDNN Graph), Reshape-1 (OpenVINO operation set 1).

Terms in this package:

- *data*, *target*, *output*: the input shape, the requested shape, and the output shape
- *dim*: a number, an interval, a symbol, an expression of symbols, or unknown (`dims`); *item*: one entry of the target
- *instance*: one concrete data shape and target that match a partially known query
- *literal*, *copied*, *inferred*, *length*, *unknown*: the kinds of items (`questions.Kind`)
- *rejection*: an exception of `errors` with a permanent reason, the field at fault, and the values
- *variable*, *monomial*, *equation*, *case*: the form in which the solvers handle a query (`solvers`)
- *step budget*: the limit of the work of a search (`budgets`)

A request starts in `inference`. `targets` reads its items (rule 2), `solvers` find the output (rules 3 and 4), `views`
and `explanations` add to the result, and `rejections` create errors. `batches` handles many queries.

Invariants: no I/O, no clock, no randomness, no numpy, no grpc. All integers are exact. Only `inference` imports
`solvers`.
"""
