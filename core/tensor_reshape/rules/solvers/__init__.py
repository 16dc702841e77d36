"""The solvers of rules 3 and 4: the values of the -1 and of unknown dims for which the volumes are equal.

From the fastest to the most general: `exact` divides numbers. `single` finds a -1 in closed form. `cases` splits the
meanings of a 0 and of an unknown item into cases, writes each case as an equation (`equations`), and narrows it by
bounds `propagation`. `splits` bounds the quotient of a product and a constant. `names` finds the expressions of output
dims. If a faster solver fits, it gives the same result as the next one.

Invariants: only `rules.inference` uses these modules. Targets are read by `rules.targets` before.
"""
