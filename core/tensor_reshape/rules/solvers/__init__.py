"""The solvers apply rules 3 and 4.

The solvers find the values of the item -1 and of unknown dims for which data and output have equal volumes. The package
has two solvers. The module `single` divides numbers, and finds a -1 in closed form. The module `cases` is the general
solver. For each meaning of a 0 and of an unknown item, the general solver examines a separate case. This solver writes
each case as an equation (`equations`), and narrows the ranges of the variables (`propagation`, `splits`). The module
`conditions` lists the conditions of a query with the help of the module `facts`. If the module `single` can solve a
query, it gives the same result as the general solver, but faster.

The solvers use the parsed target from `rules.targets`.
"""
