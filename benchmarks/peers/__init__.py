"""The peers, including ours. A module has `serve(address)`, `open_session(variant, job, stack)`, or both."""
