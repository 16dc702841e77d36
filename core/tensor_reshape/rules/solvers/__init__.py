"""The solvers of rules 3 and 4: what the -1 and the dims that are unknown may be, so that the volumes are equal.

From the cheapest to the most general: `exact` divides numbers; `single` finds a -1 in closed form; `cases` splits what
a 0 and an unknown item may mean, writes each case as one of `equations`, and narrows it by bounds `propagation`;
`splits` says what a constant leaves of a product.
`names` says what the output's dims are called. Each gives the answer of the next one where it fits.

Laws: private to `rules.inference`; a target is read by `rules.targets` alone, and comes here read.
"""
