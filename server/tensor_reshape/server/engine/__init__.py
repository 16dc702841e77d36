"""The state of all calls. The engine does no I/O, because it only takes events and returns effects.

- `lifecycle` defines the states of a call. `engine` changes the state of calls and counts their memory.
- `fair_shares` divides memory and concurrency slots fairly among clients. `stall_timeouts` chooses the calls to abort.
- `gates` admit or reject calls, and `observers` record them.
- Other packages report the events and perform the effects: `handlers`, `http` and the fallback server.
"""
