"""The handlers of calls on gRPC's core, which perform the effects that the engine returns."""
