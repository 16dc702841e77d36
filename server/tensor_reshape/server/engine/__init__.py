"""The life of a call, without I/O: events come in, effects go out.

`lifecycle` has the states of a call, `engine` moves calls and counts their memory, `ledger` shares memory and places
fairly, `stalls` chooses the calls that are given up. `handlers`, `stock` and `http` report events and perform effects.
`gates` and `observers` are attached to calls.
"""
