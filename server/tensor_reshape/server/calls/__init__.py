"""Facts about calls and the admission of callers, for gRPC and for HTTP."""
