"""Values to messages and back, the same for client and server.

Laws of this package:

- It opens nothing: no file, no socket, no thread, no clock.
- It keeps nothing that a result depends on. What it does keep are results of pure functions that come again and again,
  in caches of bounded size (`batch_fast_path`).
- A tensor's bytes are not copied on the way in where they end their message, as every client of this project and every
  generated class writes them; on the way out one join copies them into their message.
- A fast reader recognizes one form. Whatever is in another, the generated class reads, so both give the same.
"""
