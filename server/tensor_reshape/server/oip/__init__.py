"""The Open Inference Protocol (KServe V2) with Triton's extensions.

Existing clients of this protocol can use the reshape operations as models. This package uses the package `service`.
"""
