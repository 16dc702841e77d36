"""The conformance suite and its runner, which compares the answers of an implementation with the right answers.

An implementation is a program that reads queries and writes answers, one per line. `conformance/README.md` describes
the format. A crash, a hang or an invalid line only leads to a verdict about one case. It never ends the run or this
process.
"""
