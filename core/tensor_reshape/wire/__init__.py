"""Encodes and decodes all protobuf messages. The client and the server use the same functions.

Invariants:

- The package opens no file or socket, starts no thread, and reads no clock.
- The result of a function does not depend on earlier calls.
- A decoder does not copy the bytes of a tensor if these bytes are at the end of the message. The clients of this
  project and all generated protobuf classes write these bytes at the end. An encoder copies the bytes of a tensor once,
  into the message.
- For some messages, a fast reader recognizes only one encoding. The generated protobuf classes read all other
  encodings. Both readers return the same result.
"""
