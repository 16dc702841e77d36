"""The admission control (engine), which keeps the state of all calls.

The engine does no I/O. The handler of a call reports events to the engine, such as the arrival of a message. The engine
returns actions, such as aborting a call. Each action is a method of a call's handler.

- The module `lifecycle` defines the states of a call. The module `engine` changes the state of calls and counts their
  memory.
- The module `fair_shares` divides memory and concurrency slots fairly among clients. The module `stall_timeouts`
  chooses the stalled calls that the engine aborts.
- Admission checks (`gates`) admit or reject calls, and observers get records of calls that are over.
- The handlers of the package `grpc` report the events to the engine and carry out the actions that it returns.
"""
