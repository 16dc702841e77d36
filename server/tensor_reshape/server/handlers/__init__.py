"""The handlers of calls on gRPC's core. `calls` performs the effects that the engine returns."""
