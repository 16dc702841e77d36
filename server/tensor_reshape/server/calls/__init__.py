"""How a call of the service lives: entered, received, worked on, answered, and always ended.

`lifecycle` says what a call can do; `admission` moves it, and has the budget; `inline` and `threaded` serve it, without
a thread by parts of grpcio (`core_calls`, `direct_calls`, `serving_loops`), or as grpcio does by itself; `observers`
watch it.
"""
