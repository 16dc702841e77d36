"""The state of all calls, without I/O: the engine takes events and returns effects.

`lifecycle` defines the states of a call. `engine` moves calls and counts their memory. `ledger` shares memory and
concurrency slots fairly. `stalls` chooses the calls to abort. `handlers`, the fallback server and `http` report events
and perform effects. `gates` check calls, and `observers` record them.
"""
