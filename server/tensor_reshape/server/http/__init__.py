"""The contract over HTTP and JSON, for browsers and for whoever has no gRPC: what the extra `[http]` adds."""
