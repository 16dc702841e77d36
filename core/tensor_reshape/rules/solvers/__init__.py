"""The solvers of rules 3 and 4, which find the values of the -1 and of unknown dims for which the volumes are equal.

There are three solvers. `exact` divides numbers. `single` finds a -1 in closed form. `cases` is the general solver. It
examines each meaning of a 0 and of an unknown item as a separate case, writes the case as an equation (`equations`),
and narrows the ranges of the variables (`propagation`, `splits`). `names` finds the expressions of output dims. If a
query fits a faster solver, that solver gives the same result as the general solver.

Invariants: only `rules.inference` uses these modules. The solvers receive targets that `rules.targets` has read.
"""
