"""Encoders and decoders of all messages, shared by client and server.

Invariants:

- The package opens no file or socket, starts no thread, and reads no clock.
- No result depends on earlier calls. The caches hold results of pure functions and have a bounded size
  (`batch_fast_path`).
- A decoder does not copy the bytes of a tensor if they are at the end of the message. This project's clients and all
  generated classes write them there. An encoder copies them once, into the message.
- A fast reader recognizes one encoding. The generated classes read all others, so the result is the same.
"""
