"""The Open Inference Protocol (KServe V2) with Triton's extensions.

Existing clients of this protocol can use the operations as models. The package is built on `server.service`. Only
`runner` imports this package, to register its methods.
"""
