"""The Open Inference Protocol (KServe V2), with Triton's extensions: the operations as models, for clients of others.

A room of its own on top of `server.service`: `runner` registers it, and nothing else imports it.
"""
