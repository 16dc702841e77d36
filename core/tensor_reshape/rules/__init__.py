"""This package contains the rules of the operations as pure functions, which use only the standard library.

If the data shape and the target of a query consist of numbers, the five rules below are checked in this order. The
docstring of `inference` describes the order of the checks for all other queries. In the rules, V is the volume, which
is the number of elements of the data. V is the product of the dims of the data, or 1 for a scalar. All arithmetic uses
exact integers.

1. The data type, special_zero, the ranks and the dims must be valid.

2. The items of the requested shape are read from left to right. An item of the requested shape may be a number, which
   is an output dim. If special_zero is true, an item may be a 0, which copies the data dim at the same index. One item
   may be -1. Any other item is rejected.

3. The item -1 becomes V / P. P is the product of all other items. In P, each 0 that copies a dim is replaced by that
   dim. Reshape-1 first removes the copied dims from both V and P. The query is rejected if P is 0, if V / P is not an
   integer, or if V / P exceeds 2^63 - 1.

4. The volume of the output must equal the volume of the data.

5. If the query has an expected shape, the output must match that shape.

Sources: the specifications of StaticReshape-1 and DynamicReshape-1 (oneAPI / oneDNN Graph), and of Reshape-1 (OpenVINO
operation set 1).

Terms in this package:

- *data*: the input shape; *target*: the requested shape; *output*: the output shape
- *dim*: a number, an interval, a symbol, an expression of symbols, or unknown (`dims`); *item*: one entry of the target
- *instance*: one concrete data shape and one concrete target that match a partially known query
- *literal*, *copied*, *inferred*, *length*, *unknown*: the kinds of items (`questions.Kind`)
- *rejection*: an exception of `errors` that contains a permanent reason, the invalid field and the invalid values
- *variable*, *monomial*, *equation*, *case*: the parts into which the solvers translate a query (`solvers`)
- *step budget*: the number of steps that a search may take (`limits`)

The module `inference` receives every query. The module `targets` reads the items of the requested shape (rule 2), and
the package `solvers` finds the output (rules 3 and 4). The module `conditions` defines conditions, which are
requirements that accepted instances satisfy. The module `explanations` describes the origins of the output dims. The
module `rejections` creates the errors for invalid queries. The module `batches` answers many queries in one call.

Invariants: the package does no I/O, does not read a clock, and uses no random numbers. The package imports neither
numpy nor grpc. All integers in the package are exact.
"""
