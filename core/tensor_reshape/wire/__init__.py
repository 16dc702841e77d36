"""Encoders and decoders of all messages. Client and server use the same functions.

Invariants:

- The package opens no file or socket, starts no thread, and reads no clock.
- No result depends on earlier calls. The caches hold results of pure functions and have a bounded size
  (`batch_fast_path`).
- A decoder does not copy the bytes of a tensor if these bytes are at the end of the message. This project's clients and
  all generated classes write them at the end. An encoder copies the bytes once, into the message.
- A fast reader recognizes only one encoding of a message. The generated classes read all other encodings. Both give the
  same result.
"""
