"""Values to messages and back, the same for client and server.

Laws of this package: it opens nothing and keeps nothing. Tensor bytes are never copied on the way in; on the way out
they are copied once, by the join that makes the message. Whatever is odd about a message, the generated class decides.
"""
