"""The Open Inference Protocol (KServe V2) with Triton's extensions: the operations as models, for existing clients.

The package builds on `server.service`. Only `runner` imports it, to register its methods.
"""
