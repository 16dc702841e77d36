"""The state of all calls.

The engine does no I/O. It takes the events of calls and returns effects, which other code performs.

- `lifecycle` defines the states of a call. `engine` changes the state of calls and counts their memory.
- `fair_shares` divides memory and concurrency slots fairly among clients. `stall_timeouts` chooses the stalled calls
  that are aborted.
- `gates` admit or reject calls, and `observers` record them.
- The packages `handlers` and `http` and the fallback server report the events and perform the effects.
"""
