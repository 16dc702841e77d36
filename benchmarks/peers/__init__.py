"""The peers, ours among them: a module has `serve(address)`, `open_session(variant, job, stack)`, or both."""
